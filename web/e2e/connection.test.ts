// The connection to a real gateway: cut, resumed, and shared by many pages over HTTP/1.1.

import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { launch } from './browser';
import { Proxy } from './proxy';
import { Gateway } from './gateway';
import {
  beginHidden,
  close,
  connection,
  hide,
  open,
  openIn,
  show,
  shownSeq,
  streams,
  treeItem,
  treeOf,
  until,
} from './page';

const gateway = new Gateway();
const proxy = new Proxy();
let browser: Browser;

beforeAll(async () => {
  [browser] = await Promise.all([launch(), gateway.start()]);
  await proxy.listen(gateway.url);
});
afterAll(async () => {
  await browser?.close();
  proxy.close();
  await gateway.stop();
});

const WAITS = 'scripted:fanout=2,depth=1,latency_ms=600000';

/** Resolves when the page has all events of a run that waits. */
const quiet = (page: Page, run: string): Promise<number> =>
  until(
    () => shownSeq(page),
    (seq) => seq >= 4,
    'the run waits',
  ).then(async (seq) => {
    await until(
      () => gateway.graph(run),
      (graph) => graph.seq === seq,
      'the page has everything',
    );
    return seq;
  });

describe('a stream that is cut', () => {
  it('resumes by seq where it ended', async () => {
    const run = await gateway.run('Be cut', WAITS);
    const page = await open(browser, `${proxy.url}/runs`);
    const seen = streams(page);
    await page.goto(`${proxy.url}/runs/${run}`);
    await connection(page, 'live');
    const then = await quiet(page, run);
    expect(seen.asked).toEqual([{ afterSeq: expect.any(Number), snapshot: false }]);
    expect(seen.asked[0]!.afterSeq).toBeGreaterThan(0);
    proxy.cut();
    await page.locator('[data-connection="reconnecting"], [data-connection="stale"]').waitFor();
    await gateway.cli('cancel', run);
    await connection(page, 'ended');
    expect(seen.asked.slice(1).every(({ afterSeq, snapshot }) => afterSeq === then && !snapshot)).toBe(true);
    expect(seen.asked.length).toBeGreaterThan(1);
    const graph = await gateway.graph(run);
    expect(await shownSeq(page)).toBe(graph.seq);
    expect(await treeOf(page)).toEqual(Object.fromEntries(graph.nodes.map((n) => [n.id, n.status])));
    await close(page);
  });
});

describe('the badge', () => {
  it('shows that the page catches up, at first and after it was hidden, before it shows live', async () => {
    const run = await gateway.run('Be caught up with', 'scripted:fanout=3,depth=3,latency_ms=4000,tools=2');
    const context = await browser.newContext();
    const page = await openIn(context, `${gateway.url}/runs/${run}`, (empty) =>
      empty.addInitScript(() => {
        const told: string[] = ((globalThis as unknown as { told: string[] }).told = []);
        new MutationObserver((changes) => {
          for (const { oldValue } of changes) if (oldValue !== null && told.at(-1) !== oldValue) told.push(oldValue);
        }).observe(document, { subtree: true, attributeFilter: ['data-connection'], attributeOldValue: true });
      }),
    );
    const told = (): Promise<string[]> => page.evaluate(() => (globalThis as unknown as { told: string[] }).told);
    await connection(page, 'live');
    expect(await told()).toEqual(['connecting', 'catching-up']);
    await treeItem(page, /^s0,/).waitFor();
    await hide(page);
    await connection(page, 'paused');
    const then = await shownSeq(page);
    await until(
      () => gateway.graph(run),
      (graph) => graph.seq > then + 5,
      'the run goes on',
    );
    await show(page);
    await connection(page, 'live');
    expect(await told()).toEqual(['connecting', 'catching-up', 'live', 'paused', 'catching-up']);
    await close(page);
  });
});

describe('many pages of one browser', () => {
  it('never wait for each other: pages in the background hold no connection', async () => {
    const run = await gateway.run('Be watched by many', WAITS);
    const context = await browser.newContext();
    const url = `${gateway.url}/runs/${run}`;
    // More pages than the six connections that a browser opens per origin over HTTP/1.1.
    const background: Awaited<ReturnType<typeof openIn>>[] = [];
    for (let i = 0; i < 8; i++) background.push(await openIn(context, url, beginHidden));
    for (const page of background) await connection(page, 'paused');
    for (const page of background) expect(await page.title()).toContain('Be watched by many');
    const first = await openIn(context, url);
    await connection(first, 'live');
    // Six visible pages hold all of them, until they are hidden.
    const looked = background.slice(0, 5);
    for (const page of looked) {
      await show(page);
      await connection(page, 'live');
    }
    for (const page of [first, ...looked]) await hide(page);
    await show(background[6]!);
    await connection(background[6]!, 'live');
    await treeItem(background[6]!, /^Be watched by many/).waitFor();
    await gateway.cli('cancel', run);
    await connection(background[6]!, 'ended');
    for (const page of [first, ...background]) expect(page.problems).toEqual([]);
    await context.close();
  }, 240_000);
});
