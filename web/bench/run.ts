// Measures the UI in headless Chromium against a replayed log: script time on the main thread, not GPU frames, because
// most machines that run this have no GPU. `npm run bench` prints a table and writes bench/results.json.

import { statSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import type { Page } from 'playwright-core';
import { launch } from '../e2e/browser';
import { bigLog, Log, nodeId, runId } from '../e2e/logs';
import { MockGateway } from '../e2e/mock';
import { NodeStatus } from '../src/gen/treeagent/v1/common_pb';

interface Figure {
  name: string;
  value: number;
  limit: number;
  unit: string;
}

const percentile = (values: number[], p: number): number =>
  values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * p))] ?? Number.NaN;

/** Collects what the page's probe reports. */
async function probed(page: Page): Promise<void> {
  await page.addInitScript(() => {
    const log: { moment: string; seq: number; ms: number; at: number }[] = [];
    Object.assign(globalThis, { probeLog: log });
    globalThis.treeAgentProbe = (moment, seq, ms) => log.push({ moment, seq, ms, at: performance.now() });
  });
}

interface Probe {
  moment: string;
  seq: number;
  ms: number;
  at: number;
}
const read = (page: Page): Promise<Probe[]> =>
  page.evaluate(() => (globalThis as unknown as { probeLog: Probe[] }).probeLog.splice(0));

/** The home page and every file that it loads, compressed, in KiB. */
async function weight(page: Page, url: string): Promise<number> {
  await page.goto(url);
  await page.locator('main').waitFor();
  const loaded = await page.evaluate(() => performance.getEntriesByType('resource').map(({ name }) => name));
  const files = loaded.map((name) => new URL(name).pathname.slice(1)).filter((name) => name.startsWith('assets/'));
  const size = (name: string): number => statSync(new URL(`../dist/${name}.br`, import.meta.url)).size;
  return ['index.html', ...files].reduce((sum, name) => sum + size(name), 0) / 1024;
}

async function firstPaint(url: string, run: string, page: Page): Promise<number> {
  await page.goto(`${url}/runs/${run}`);
  await page.waitForFunction(
    (n) => (globalThis as unknown as { probeLog: Probe[] }).probeLog.some((p) => p.moment === 'painted' && p.seq >= n),
    1,
  );
  await page.waitForFunction(() =>
    (globalThis as unknown as { probeLog: Probe[] }).probeLog.some((p) => p.moment === 'layout'),
  );
  const probes = await read(page);
  const layout = probes.find((p) => p.moment === 'layout')!;
  const painted = probes.find((p) => p.moment === 'painted' && p.at > layout.at) ?? layout;
  return painted.at;
}

/** Sends `rate` events a second for `seconds`; half of them create nodes, half change them. */
async function stream(gateway: MockGateway, log: Log, rate: number, seconds: number, base: number): Promise<void> {
  const begun = performance.now();
  let sent = 0;
  let next = base;
  while (sent < rate * seconds) {
    const due = Math.min(rate * seconds, Math.floor(((performance.now() - begun) / 1000) * rate));
    for (; sent < due; sent++) {
      if (sent % 4 === 0) next = log.node((sent * 7) % 900);
      else
        log.status(
          sent % 4 === 1 ? next : (sent * 13) % base,
          sent % 2 === 0 ? NodeStatus.EXECUTING : NodeStatus.WAITING,
        );
    }
    gateway.publish();
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

export async function main(): Promise<void> {
  const gateway = new MockGateway();
  const url = await gateway.listen();
  const browser = await launch();
  const figures: Figure[] = [];
  const figure = (name: string, value: number, limit: number, unit: string): void =>
    void figures.push({ name, value, limit, unit });
  try {
    const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
    figure('page weight of the home page, Brotli', await weight(page, url), 170, 'KiB');
    const big = gateway.add(bigLog(runId(1), 10_000, 10));
    await probed(page);
    const paints: number[] = [];
    for (let i = 0; i < 3; i++) paints.push(await firstPaint(url, big.run, page));
    figure('first useful paint, 10,000 nodes', percentile(paints, 0.5), 2000, 'ms');

    await page.locator('[data-connection="live"]').waitFor();
    await page.waitForFunction(
      (head) => Number(document.querySelector('[data-testid=seq]')?.getAttribute('data-seq')) >= head,
      big.head,
    );
    await page.waitForTimeout(1500);
    await read(page);
    const cdp = await page.context().newCDPSession(page);
    await cdp.send('Performance.enable');
    const spent = async (): Promise<number> => {
      const { metrics } = await cdp.send('Performance.getMetrics');
      return (metrics.find((m) => m.name === 'ScriptDuration')?.value ?? 0) * 1000;
    };
    const before = await spent();
    await stream(gateway, big, 500, 8, 10_000);
    await page.waitForTimeout(800);
    const script = (await spent()) - before;
    const probes = await read(page);
    const painted = probes.filter((p) => p.moment === 'painted');
    const latencies = probes
      .filter((p) => p.moment === 'received')
      .map((r) => (painted.find((p) => p.seq >= r.seq && p.at >= r.at)?.at ?? Infinity) - r.at);
    figure('event received to painted, p95, 500 events/s at 10,000 nodes', percentile(latencies, 0.95), 250, 'ms');
    const events = latencies.length;
    const applied = probes.filter((p) => p.moment === 'applied').reduce((sum, p) => sum + p.ms, 0);
    figure('projection per event, 10,000 nodes', applied / events, 0.5, 'ms');
    figure('all script of the page per event, 10,000 nodes: receive, apply, lists, graph', script / events, 0.5, 'ms');
    figure(
      'script of one frame of the graph, p95',
      percentile(
        painted.map((p) => p.ms),
        0.95,
      ),
      16,
      'ms',
    );
    figure(
      'layout of 10,000 nodes in the worker, p95',
      percentile(
        probes.filter((p) => p.moment === 'layout').map((p) => p.ms),
        0.95,
      ),
      200,
      'ms',
    );
    await page.close();

    const long = new Log(runId(2), 'A run of 50,000 events');
    long.node(-1);
    while (long.head < 50_000) long.status(0, long.head % 2 === 0 ? NodeStatus.EXECUTING : NodeStatus.WAITING);
    gateway.add(long);
    const log = await browser.newPage({ viewport: { width: 1440, height: 900 } });
    await log.goto(`${url}/runs/${long.run}?view=time&node=${nodeId(0)}`);
    await log.waitForFunction(
      () => Number(document.querySelector('[data-testid=event-rows]')?.getAttribute('data-count')) === 50_000,
      undefined,
      { timeout: 60_000 },
    );
    figure(
      'DOM elements with 50,000 events listed',
      await log.evaluate(() => document.querySelectorAll('*').length),
      5000,
      '',
    );
    await log.close();
  } finally {
    await browser.close();
    await gateway.close();
  }
  const rows = figures.map((f) => ({
    figure: f.name,
    measured: `${f.value.toFixed(f.value < 10 ? 3 : 0)} ${f.unit}`,
    limit: `${f.limit} ${f.unit}`,
    holds: f.value <= f.limit,
  }));
  process.stdout.write(
    `${rows.map((r) => `${r.holds ? 'ok  ' : 'OVER'} ${r.figure}: ${r.measured} (limit ${r.limit})`).join('\n')}\n`,
  );
  const machine = `${cpus().length} × ${cpus()[0]?.model ?? 'unknown CPU'}`;
  writeFileSync(new URL('./results.json', import.meta.url), `${JSON.stringify({ machine, figures }, null, 2)}\n`);
  if (rows.some((r) => !r.holds)) process.exitCode = 1;
}
