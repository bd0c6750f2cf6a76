// Takes the screenshots: `npm run screenshots` writes them to web/screenshots/.

import { cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { launch } from '../e2e/browser';
import { Gateway, type GraphJson } from '../e2e/gateway';
import { bigLog, runId } from '../e2e/logs';
import { MockGateway } from '../e2e/mock';
import { until } from '../e2e/page';

const OUT = new URL('../screenshots/', import.meta.url);
const ROOT = new URL('../../', import.meta.url).pathname;

/** A scene is taken in both themes. */
interface Scene {
  name: string;
  url: string;
  options?: BrowserContextOptions;
  act?: (page: Page) => Promise<unknown>;
}

async function take(browser: Browser, { name, url, options, act }: Scene): Promise<void> {
  for (const colorScheme of ['light', 'dark'] as const) {
    const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, colorScheme, ...options });
    const page = await context.newPage();
    await page.goto(url);
    await page.locator('main').first().waitFor();
    // Pictures are taken when everything has come to rest.
    await page.waitForTimeout(1200);
    await act?.(page);
    await page.waitForTimeout(700);
    const file = colorScheme === 'dark' ? `${name}-dark.png` : `${name}.png`;
    await page.screenshot({ path: new URL(file, OUT).pathname });
    await context.close();
    process.stdout.write(`${file}\n`);
  }
}

export async function main(): Promise<void> {
  mkdirSync(OUT, { recursive: true });
  const notes = mkdtempSync(join(tmpdir(), 'tree-agent-notes-'));
  const gateway = new Gateway();
  const mock = new MockGateway();
  const [browser, made] = await Promise.all([launch(), mock.listen(), gateway.start()]);
  try {
    for (const file of ['README.md', 'ARCHITECTURE.md', 'CHANGELOG.md', 'docs', 'deploy/README.md'])
      cpSync(join(ROOT, file), join(notes, file), { recursive: true });
    await gateway.cli('import', notes, '--project', 'Handbook');
    const ended = (graph: GraphJson): boolean => graph.status !== 'queued' && graph.status !== 'running';
    const start = async (question: string, model: string, ...options: string[]): Promise<string> => {
      const id = await gateway.run(question, model, ...options);
      await until(() => gateway.graph(id), ended, 'the run ends');
      return id;
    };
    const about = ['--project', 'Handbook'];
    const plain = 'What do the log, the lease and the gateway promise, and how are events named?';
    const tree = await start(plain, 'offline', ...about);
    const guided = 'How does a run survive when a planner, a driver, the database or Redis dies?';
    const search = await start(guided, 'offline', '--strategy', 'search', '--max-nodes', '60', ...about);
    const coast = 'scripted:fanout=3,depth=2,tools=1,artifacts=document,fail=rejected,fail_titles=s1.s0';
    const failing = await start('Survey the coast and lose one station', coast);
    const cities = 'Compare how five cities prepare for heat';
    const live = await gateway.run(cities, 'scripted:fanout=4,depth=3,latency_ms=9000,tools=2');
    await until(
      () => gateway.graph(live),
      (graph) => graph.nodes.length >= 40,
      'the tree grows',
    );
    mock.add(bigLog(runId(1), 1000, 6, 61));
    const run = (id: string, query = ''): string => `${gateway.url}/runs/${id}${query}`;
    const cited = (page: Page): Promise<void> => page.locator('a.cite, button.cite').first().click();
    const scenes: Scene[] = [
      { name: 'home', url: gateway.url },
      { name: 'live', url: run(live, '?view=graph') },
      { name: 'answer', url: run(tree), act: cited },
      { name: 'search', url: run(search, '?view=graph') },
      { name: 'failure', url: run(failing, '?view=graph&show=failed'), act: (page) => page.keyboard.press('n') },
      { name: 'nodes-1000', url: `${made}/runs/${runId(1)}?view=graph` },
      { name: 'narrow', url: run(tree, '?view=graph'), options: { viewport: { width: 390, height: 844 } } },
    ];
    for (const scene of scenes) await take(browser, scene);
  } finally {
    await browser.close();
    await mock.close();
    await gateway.stop();
    rmSync(notes, { recursive: true });
  }
}
