// What travels when a page is opened: its files, and a large run that has ended.

import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { launch } from './browser';
import { Gateway } from './gateway';
import { close, connection, open } from './page';

const gateway = new Gateway();
let browser: Browser;

beforeAll(async () => {
  [browser] = await Promise.all([launch(), gateway.start()]);
});
afterAll(async () => {
  await browser?.close();
  await gateway.stop();
});

/** A new page, and the bytes of what it receives: bodies of files, and calls with their headers. */
async function weighed() {
  const page = await open(browser, 'about:blank');
  const cdp = await page.context().newCDPSession(page);
  const bytes = { files: 0, calls: 0 };
  const calls = new Set<string>();
  cdp.on('Network.requestWillBeSent', ({ requestId, request }) => {
    if (request.url.includes('/treeagent.v1.')) calls.add(requestId);
  });
  cdp.on('Network.dataReceived', ({ requestId, encodedDataLength }) => {
    if (!calls.has(requestId)) bytes.files += encodedDataLength;
  });
  cdp.on('Network.loadingFinished', ({ requestId, encodedDataLength }) => {
    if (calls.has(requestId)) bytes.calls += encodedDataLength;
  });
  await cdp.send('Network.enable');
  return { page, bytes };
}

it('opens the home page with 170 KiB of files at most', async () => {
  const { page, bytes } = await weighed();
  await page.goto(gateway.url, { waitUntil: 'load' });
  await page.locator('main').first().waitFor();
  expect(bytes.files).toBeGreaterThan(50 * 1024);
  expect(bytes.files).toBeLessThanOrEqual(170 * 1024);
  await close(page);
});

it('opens an ended run, and its answer, with 170 KiB of files at most', async () => {
  await gateway.cli('run', 'Be light', '--model', 'scripted:fanout=2,depth=1');
  const { runId } = JSON.parse((await gateway.cli('runs', '-o', 'jsonl')).trim()) as { runId: string };
  const { page, bytes } = await weighed();
  // What reads Markdown is asked for last.
  const last = page.waitForResponse(/markdown\.worker/);
  await page.goto(`${gateway.url}/runs/${runId}`);
  await (await last).finished();
  await page.getByTestId('answer-facts').waitFor();
  expect(bytes.files).toBeGreaterThan(100 * 1024);
  expect(bytes.files).toBeLessThanOrEqual(170 * 1024);
  await close(page);
});

it('opens an ended run of a thousand nodes, and its whole log, with a megabyte at most', async () => {
  const budgets = ['--max-nodes', '2000', '--max-steps-per-band', '10'];
  // Waits until the run has ended.
  await gateway.cli('run', 'Be heavy', '--model', 'scripted:fanout=10,depth=3,tools=2', ...budgets);
  const [line = ''] = (await gateway.cli('runs', '-o', 'jsonl')).split('\n');
  const { runId } = JSON.parse(line) as { runId: string };
  const graph = await gateway.graph(runId);
  expect([graph.status, graph.nodes.length]).toEqual(['completed', 1111]);

  const { page, bytes } = await weighed();
  await page.goto(`${gateway.url}/runs/${runId}?view=time`);
  await connection(page, 'ended');
  await page.locator(`[data-testid=event-rows][data-count="${graph.seq}"]`).waitFor();
  expect(bytes.calls).toBeGreaterThan(100_000);
  expect(bytes.calls).toBeLessThanOrEqual(1_000_000);
  await close(page);
}, 900_000);
