// What a real gateway does not do on demand: a stream cut at a chosen event, models that cost money, a run that waits
// for its first node. Against a gateway that replays made-up logs, with the real one's Content-Security-Policy.

import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { launch } from './browser';
import { Log, nodeId, runId } from './logs';
import { MockGateway } from './mock';
import { close, connection, open, shownSeq, until } from './page';

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

describe('what a model with a price costs', () => {
  it('stands on the cards, in the panel, in the header and in the list', async () => {
    const log = begin('Paid for');
    const child = log.node(0, 'Paid for too');
    log.add(0, { case: 'usageRecorded', value: { model: 'made up', inputTokens: 900n, outputTokens: 120n, costMicros: 1_500n, purpose: 'plan' } });
    log.add(child, { case: 'usageRecorded', value: { model: 'made up', inputTokens: 900n, outputTokens: 120n, costMicros: 250_000n, purpose: 'execute' } });
    const page = await open(browser, `${url}/runs/${log.run}`);
    await connection(page, 'live');
    await page.locator(`[data-card="${nodeId(0)}"]`).getByText('$0.252').waitFor();
    await page.locator(`[data-card="${nodeId(1)}"]`).getByText('$0.250').waitFor();
    await page.locator('header').getByText('$0.252').waitFor();
    await page.getByRole('treeitem', { name: /Paid for,/ }).click();
    expect(await page.getByTestId('cost').allInnerTexts()).toEqual(['$0.0015', '$0.252']);
    await page.goto(`${url}/runs`);
    await page.locator(`[data-run-id="${log.run}"]`).getByTestId('row-cost').filter({ hasText: '$0.252' }).waitFor();
    await close(page);
  });
});

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

describe('connection', () => {
  it('comes back by seq when its stream is cut', async () => {
    const log = begin();
    const page = await open(browser, `${url}/runs/${log.run}`);
    await connection(page, 'live');
    log.node(0);
    gateway.publish();
    await until(() => shownSeq(page), (s) => s === log.head, 'the event arrives');
    gateway.opened.length = 0;
    gateway.cut();
    log.node(0);
    await until(() => shownSeq(page), (s) => s === log.head, 'it goes on');
    expect(gateway.opened.at(-1)).toBe(log.head - 1);
    await connection(page, 'live');
    await close(page);
  });
});
