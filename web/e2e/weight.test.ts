// What travels when a page is opened: its files, and a large run that has ended.

import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { launch } from './browser';
import { Gateway } from './gateway';
import { close, connection, open, until } from './page';

const FILES = 170 * 1024;
const RUN = 1_000_000;

const gateway = new Gateway();
let browser: Browser;

beforeAll(async () => {
  [browser] = await Promise.all([launch(), gateway.start()]);
});
afterAll(async () => {
  await browser?.close();
  await gateway.stop();
});

it('opens an ended run of a thousand nodes, and its whole log, with a megabyte at most', async () => {
  const model = 'scripted:fanout=10,depth=3,tools=2';
  const run = await gateway.run('Be heavy', model, '--max-nodes', '2000', '--max-steps-per-band', '16');
  const graph = await until(
    () => gateway.graph(run),
    ({ status }) => status === 'completed',
    'the run ends',
    240_000,
  );
  expect(graph.nodes.length).toBeGreaterThan(1000);

  const page = await open(browser, 'about:blank');
  const cdp = await page.context().newCDPSession(page);
  const urls = new Map<string, string>();
  const bytes = { files: 0, calls: 0 };
  cdp.on('Network.requestWillBeSent', ({ requestId, request }) => urls.set(requestId, request.url));
  cdp.on('Network.loadingFinished', ({ requestId, encodedDataLength }) => {
    bytes[urls.get(requestId)?.includes('/treeagent.v1.') ? 'calls' : 'files'] += encodedDataLength;
  });
  await cdp.send('Network.enable');
  await page.goto(`${gateway.url}/runs/${run}?view=time`);
  await connection(page, 'ended');
  await page.locator(`[data-testid=event-rows][data-count="${graph.seq}"]`).waitFor();
  expect(bytes.files).toBeGreaterThan(10_000);
  expect(bytes.files).toBeLessThanOrEqual(FILES);
  expect(bytes.calls).toBeGreaterThan(100_000);
  expect(bytes.calls).toBeLessThanOrEqual(RUN);
  await close(page);
}, 360_000);
