// Takes the screenshots: `npm run screenshots` writes them to web/screenshots/.

import { cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { launch } from '../e2e/browser';
import { Gateway } from '../e2e/gateway';
import { bigLog, runId } from '../e2e/logs';
import { MockGateway } from '../e2e/mock';

const OUT = new URL('../screenshots/', import.meta.url);
const ROOT = new URL('../../', import.meta.url).pathname;

interface Picture {
  name: string;
  url: string;
  options?: BrowserContextOptions;
  act?: (page: Page) => Promise<void>;
}

async function take(browser: Browser, picture: Picture): Promise<void> {
  const context = await browser.newContext({
    viewport: { width: 1440, height: 900 },
    reducedMotion: 'reduce',
    ...picture.options,
  });
  const page = await context.newPage();
  await page.goto(picture.url);
  await page.waitForTimeout(1200);
  await picture.act?.(page);
  await page.waitForTimeout(700);
  await page.screenshot({ path: new URL(`${picture.name}.png`, OUT).pathname });
  await context.close();
  process.stdout.write(`${picture.name}.png\n`);
}

const choose =
  (title: string | RegExp) =>
  async (page: Page): Promise<void> => {
    await page.getByRole('treeitem', { name: title }).first().click();
  };

export async function main(): Promise<void> {
  mkdirSync(OUT, { recursive: true });
  const notes = mkdtempSync(join(tmpdir(), 'tree-agent-notes-'));
  const gateway = new Gateway();
  const mock = new MockGateway();
  const [browser, made] = await Promise.all([launch(), mock.listen()]);
  try {
    await gateway.start();
    for (const file of ['README.md', 'ARCHITECTURE.md', 'CHANGELOG.md', 'docs', 'deploy/README.md'])
      cpSync(join(ROOT, file), join(notes, file), { recursive: true });
    await gateway.cli('import', notes, '--project', 'Handbook');
    const question = 'What do the log, the lease and the gateway promise, and how are events named?';
    const offline = await gateway.run(question, 'offline', '--project', 'Handbook');
    const failing = await gateway.run(
      'Survey the coast and lose one station',
      'scripted:fanout=3,depth=2,tools=1,artifacts=document,fail=rejected,fail_titles=s1.s0',
    );
    const live = await gateway.run(
      'Compare how five cities prepare for heat',
      'scripted:fanout=4,depth=2,latency_ms=2600,tools=2',
    );
    await new Promise((resolve) => setTimeout(resolve, 1500));
    const run = (id: string, query = ''): string => `${gateway.url}/runs/${id}${query}`;
    mock.add(bigLog(runId(1), 1000, 6, 61));
    const pictures: Picture[] = [
      {
        name: 'live',
        url: run(live),
        options: { reducedMotion: 'no-preference' },
        act: async (p) => p.waitForTimeout(2500),
      },
      { name: 'live-dark', url: run(live), options: { colorScheme: 'dark' }, act: choose(/^s0,/) },
      { name: 'light', url: run(offline) },
      { name: 'dark', url: run(offline, '?tab=scratchpad'), options: { colorScheme: 'dark' }, act: choose(/./) },
      {
        name: 'failure',
        url: run(failing),
        act: async (p) => (await p.keyboard.press('f'), await p.keyboard.press('n')),
      },
      { name: 'time-travel', url: run(failing, '?seq=90&view=time') },
      { name: 'nodes-1000', url: `${made}/runs/${runId(1)}`, act: async (p) => p.keyboard.press('0') },
      {
        name: 'nodes-1000-dark',
        url: `${made}/runs/${runId(1)}`,
        options: { colorScheme: 'dark' },
        act: async (p) => p.getByRole('button', { name: 'Zoom in' }).click({ clickCount: 8 }),
      },
      { name: 'narrow', url: run(failing), options: { viewport: { width: 360, height: 740 } } },
      {
        name: 'narrow-node',
        url: run(failing),
        options: { viewport: { width: 360, height: 740 } },
        act: choose(/^s1.s0,/),
      },
      { name: 'home-dark', url: gateway.url, options: { colorScheme: 'dark' } },
      { name: 'home', url: gateway.url },
      { name: 'missing', url: run('00000000-0000-4000-8000-000000000000'), options: { colorScheme: 'dark' } },
    ];
    for (const picture of pictures) await take(browser, picture);
  } finally {
    await browser.close();
    await mock.close();
    await gateway.stop();
    rmSync(notes, { recursive: true });
  }
}
