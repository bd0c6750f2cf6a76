// The scratchpad while it is written, against a real gateway: over HTTP/1.1, where a page has one stream, and behind a
// proxy that speaks HTTP/2, where streams share a connection.

import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { launch } from './browser';
import { Gateway } from './gateway';
import { close, connection, hide, open, show, streams, treeItem, until } from './page';
import { Proxy } from './proxy';

const gateway = new Gateway();
const proxy = new Proxy('https');
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

const text = (page: Page): Promise<string> => page.getByTestId('scratchpad').innerText();

describe('a scratchpad that grows', () => {
  it.each([
    ['HTTP/1.1 is read again with the events, and takes no stream of its own', () => gateway.url, false],
    ['HTTP/2 is followed as it is written', () => proxy.url, true],
  ])('over %s', async (_, address, followed) => {
    const run = await gateway.run('Write for a while', 'scripted:fanout=1,depth=0,latency_ms=8000,notes=40');
    const page = await open(browser, `${address()}/runs`, { ignoreHTTPSErrors: true });
    const seen = streams(page);
    await page.goto(`${address()}/runs/${run}?tab=scratchpad`);
    await connection(page, 'live');
    await treeItem(page, /^Write for a while/).click();
    const early = await until(
      () => text(page),
      (t) => t.includes('note 3,'),
      'it begins',
    );
    expect(early).not.toContain('note 40,');
    await until(
      () => text(page),
      (t) => t.includes('note 20,'),
      'it grows',
    );
    expect(seen.most).toBe(followed ? 2 : 1);
    expect(seen.watched).toBe(followed ? 1 : 0);
    if (followed) expect(seen.read).toBe(0);
    await connection(page, 'ended');
    const whole = (
      await gateway.cli('doc', (await page.getByTestId('node-panel').getAttribute('data-scratchpad'))!)
    ).trim();
    expect(whole).toContain('note 40,');
    await until(
      () => text(page),
      (t) => t.includes('scripted: executed'),
      'all of it is there',
    );
    for (let n = 1; n <= 40; n++) expect(await text(page)).toContain(`note ${n},`);
    if (!followed) expect(seen.read).toBeGreaterThan(1);
    await until(
      async () => seen.open,
      (n) => n === 0,
      'no stream is left',
    );
    await close(page);
  });

  it('resumes where its text ended, after the page was hidden and after the gateway was killed', async () => {
    const run = await gateway.run('Write through trouble', 'scripted:fanout=1,depth=0,latency_ms=20000,notes=100');
    const page = await open(browser, `${proxy.url}/runs`, { ignoreHTTPSErrors: true });
    const seen = streams(page);
    await page.goto(`${proxy.url}/runs/${run}?tab=scratchpad`);
    await connection(page, 'live');
    await treeItem(page, /^Write through trouble/).click();
    await until(
      () => text(page),
      (t) => t.includes('note 3,'),
      'it begins',
    );
    await hide(page);
    await connection(page, 'paused');
    await until(
      async () => seen.open,
      (n) => n === 0,
      'no stream is open',
    );
    const before = await text(page);
    await show(page);
    await until(
      () => text(page),
      (t) => t.length > before.length,
      'what was written meanwhile is there',
    );
    await gateway.kill();
    await page.locator('[data-connection="reconnecting"], [data-connection="stale"]').waitFor();
    await gateway.start();
    await page.locator('[data-connection="ended"]').waitFor({ timeout: 120_000 });
    const body = await until(
      () => text(page),
      (t) => t.includes('scripted: executed'),
      'all of it is there',
    );
    // Nothing is repeated: each note from before the page was hidden appears once per attempt.
    const id = (await page.getByTestId('node-panel').getAttribute('data-scratchpad'))!;
    const whole = await gateway.cli('doc', id);
    const times = (found: string): number => found.split('note 3,').length;
    expect(times(body)).toBe(times(whole));
    expect(seen.read).toBeLessThanOrEqual(1);
    await close(page);
  }, 240_000);
});
