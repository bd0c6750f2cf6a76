// What a real gateway does not do on demand: hostile tool names and errors, a stream cut at a chosen event, tokens that
// expire. Against a gateway that replays made-up logs, with the real one's Content-Security-Policy.

import { Code } from '@connectrpc/connect';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { NodeStatus } from '../src/gen/treeagent/v1/common_pb';
import { launch } from './browser';
import { bigLog, Log, nodeId, runId } from './logs';
import { MockGateway } from './mock';
import { close, connection, drawn, open, settled, shownSeq, until } from './page';

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

describe('hostile text', () => {
  it('is shown and never run, in titles, errors, tools and scratchpads', async () => {
    const evil = '<img src=x onerror="globalThis.hacked=1"><script>globalThis.hacked=1</script>';
    const log = begin(evil);
    log.node(0, `${'very long '.repeat(1000)}end`);
    log.node(0, 'שלום עולם, this title begins from the right');
    const doc = 'd0000000-0000-4000-8000-000000000001';
    gateway.documents.set(doc, `# ${evil}\n\n[run](javascript:globalThis.hacked=1) ${evil}`);
    log.add(0, { case: 'scratchpadLinked', value: { scratchpadDocId: doc } });
    log.add(0, { case: 'toolCallRequested', value: { callId: 'c', toolName: evil, args: { evil } } });
    log.add(0, { case: 'toolCallResult', value: { callId: 'c', toolName: evil, ok: false, error: evil } });
    log.fail(0, evil);
    const page = await open(browser, `${url}/runs/${log.run}?node=${nodeId(0)}`);
    for (const tab of ['Overview', 'Scratchpad', 'Timeline', 'Tools', 'Result']) {
      await page.getByRole('tab', { name: tab }).click();
      await page.getByRole('tab', { name: tab, selected: true }).waitFor();
    }
    await page.getByRole('tab', { name: 'Scratchpad' }).click();
    await page.getByTestId('scratchpad').getByText('<script>').first().waitFor();
    expect(await page.getByTestId('scratchpad').locator('a').count()).toBe(0);
    await page.keyboard.press('e');
    await drawn(page);
    expect(await page.evaluate(() => 'hacked' in globalThis)).toBe(false);
    expect(await page.locator('img[src=x]').count()).toBe(0);
    const card = await page.locator(`[data-card="${nodeId(1)}"]`).boundingBox();
    const k = Number(await page.getByTestId('graph').getAttribute('data-k'));
    expect(card!.height / k).toBeCloseTo(92, 0);
    const refused = await page.evaluate(() => {
      const script = document.createElement('script');
      script.textContent = 'globalThis.inline = 1';
      document.body.append(script);
      return 'inline' in globalThis;
    });
    expect(refused).toBe(false);
    page.problems.length = 0; // the refusal itself is logged as an error
    await close(page);
  });
});

describe('floods', () => {
  it('stops following the tail when one scrolls up, says how many are new, and follows again', async () => {
    const log = begin();
    for (let i = 0; i < 300; i++) log.status(0, NodeStatus.EXECUTING);
    const page = await open(browser, `${url}/runs/${log.run}?side=events`);
    await connection(page, 'live');
    const rows = page.getByTestId('event-rows');
    await until(() => rows.getAttribute('data-count'), (n) => n === String(log.head), 'the past is there');
    const top = () => rows.evaluate((e) => e.scrollTop);
    await until(top, (t) => t > 5000, 'the tail is followed');
    await rows.hover();
    await page.mouse.wheel(0, -2000);
    await until(top, (t) => t < 12_000, 'scrolled up');
    const here = await settled(top);
    for (let i = 0; i < 40; i++) log.status(0, NodeStatus.WAITING);
    gateway.publish();
    await page.getByRole('button', { name: '40 new' }).waitFor();
    expect(await top()).toBe(here);
    await page.getByRole('button', { name: '40 new' }).click();
    await until(() => rows.evaluate((e) => e.scrollHeight - e.scrollTop - e.clientHeight), (d) => d < 5, 'at the tail');
    await close(page);
  });

  it('shows a huge run: one node a subtree from afar, and every failure can be reached', async () => {
    const log = gateway.add(bigLog(runId(next++), 10_000, 10));
    const page = await open(browser, `${url}/runs/${log.run}`);
    await connection(page, 'live');
    expect(await page.evaluate(() => document.querySelectorAll('*').length)).toBeLessThan(5000);
    await page.keyboard.press('f');
    const failed = log.events.filter((e) => e.body.case === 'nodeFailed').length;
    await page.getByTestId('match-count').filter({ hasText: `${failed} matches` }).waitFor();
    await page.keyboard.press('n');
    await page.getByTestId('node-panel').getByText('the source could not be read').first().waitFor();
    await page.getByTestId('node-panel').getByText('It was asked for').waitFor();
    await page.getByTestId('node-panel').getByText('It is there').waitFor();
    await page.locator('[data-card][class*=selected]').waitFor();
    await close(page);
  });
});

describe('connection', () => {
  it('comes back by seq, and holds no stream while hidden', async () => {
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
    await page.evaluate(() => {
      Object.defineProperty(document, 'hidden', { configurable: true, get: () => true });
      document.dispatchEvent(new Event('visibilitychange'));
    });
    await connection(page, 'paused');
    await until(async () => gateway.streams, (n) => n === 0, 'no stream is open');
    log.node(0);
    await page.evaluate(() => {
      Reflect.deleteProperty(document, 'hidden');
      document.dispatchEvent(new Event('visibilitychange'));
    });
    await until(() => shownSeq(page), (s) => s === log.head, 'what happened meanwhile is there');
    await close(page);
  });

  it('asks for a token when it expires while watching, and goes on from there', async () => {
    const log = begin('Watched');
    const page = await open(browser, `${url}/runs/${log.run}`);
    await connection(page, 'live');
    gateway.refuse = Code.Unauthenticated;
    gateway.cut();
    await page.getByRole('dialog', { name: 'Your access has expired' }).waitFor();
    gateway.refuse = undefined;
    log.node(0, 'After the new token');
    await page.getByLabel('Access token').fill('a-new-token');
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.getByRole('treeitem', { name: /After the new token/ }).waitFor();
    await connection(page, 'live');
    await close(page);
  });
});
