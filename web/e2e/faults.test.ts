// What a real gateway does not do on demand: a run that waits for its first node while one watches, trees beyond what
// budgets allow. Against a gateway that replays made-up logs, with the real one's Content-Security-Policy.

import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { launch } from './browser';
import { Log, nodeId, runId } from './logs';
import { MockGateway } from './mock';
import { close, connection, drawn, open, until } from './page';

const gateway = new MockGateway();
let browser: Browser;
let url: string;
let next = 100;

beforeAll(async () => {
  [browser, url] = await Promise.all([launch(), gateway.listen()]);
});
afterAll(async () => {
  await browser?.close();
  await gateway.close();
});

const begin = (title?: string): Log => {
  const log = gateway.add(new Log(runId(next++)));
  log.node(-1, title);
  return log;
};

describe('a run that has no node yet', () => {
  it('says that it waits, and shows the first one when it comes', async () => {
    const log = gateway.add(new Log(runId(next++)));
    const page = await open(browser, `${url}/runs/${log.run}`);
    await page.getByText('Waiting for the first node').waitFor();
    log.node(-1, 'The first one');
    gateway.publish();
    await page.getByRole('treeitem', { name: /The first one/ }).waitFor();
    await page.getByText('Waiting for the first node').waitFor({ state: 'detached' });
    await close(page);
  });
});

describe('a tree beyond all budgets', () => {
  it.each([
    ['a depth of 1,000', (log: Log) => { for (let n = 1; n < 1000; n++) log.node(n - 1); }, 1000],
    ['a fan-out of 10,000', (log: Log) => { for (let n = 0; n < 10_000; n++) log.node(0); }, 10_001],
  ])('of %s is laid out, seen whole and reached to its last node', async (_, grow, nodes) => {
    const log = begin('The root of it');
    grow(log);
    const page = await open(browser, `${url}/runs/${log.run}`);
    await connection(page, 'live');
    await page.locator('header').getByText(nodes.toLocaleString('en'), { exact: true }).waitFor();
    await page.keyboard.press('0');
    await drawn(page);
    expect(await page.evaluate(() => document.querySelectorAll('*').length)).toBeLessThan(20_000);
    await page.keyboard.press('t');
    await page.keyboard.press('End');
    await page.locator('[role=treeitem]:focus').waitFor();
    await page.keyboard.press('Enter');
    const last = nodeId(nodes - 1);
    await page.locator(`[data-panel-node="${last}"]`).waitFor();
    const [card, view] = [page.locator(`[data-card="${last}"]`), (await page.getByTestId('graph').boundingBox())!];
    await card.waitFor();
    const box = await until(async () => (await card.boundingBox())!, ({ x, y, width, height }) => x >= view.x && y >= view.y && x + width <= view.x + view.width && y + height <= view.y + view.height, 'it is in view');
    expect(box.width).toBeGreaterThan(100);
    await close(page);
  });
});
