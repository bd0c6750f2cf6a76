import { cpSync, mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { launch } from './e2e/browser';
import { Gateway } from './e2e/gateway';
import { until } from './e2e/page';
export async function main(): Promise<void> {
  const ROOT = '/work/main/';
  const gateway = new Gateway();
  const [browser] = await Promise.all([launch(), gateway.start()]);
  const notes = mkdtempSync('/tmp/shots-');
  for (const file of ['README.md', 'ARCHITECTURE.md', 'docs', 'deploy/README.md'])
    cpSync(join(ROOT, file), join(notes, file), { recursive: true });
  await gateway.cli('import', notes, '--project', 'Handbook');
  const start = async (q: string, ...o: string[]) => {
    const id = await gateway.run(q, ...(o as [string]));
    await until(
      () => gateway.graph(id),
      (g) => !['queued', 'running'].includes(g.status),
      'ends',
    );
    return id;
  };
  const tree = await start(
    'What do the log, the lease and the gateway promise, and how are events named?',
    'offline',
    '--project',
    'Handbook',
  );
  const hw = await start(
    'What must an operator know about backups, upgrades and incidents?',
    'offline',
    '--strategy',
    'homework',
    '--project',
    'Handbook',
  );
  const search = await start(
    'How does a run survive when a planner dies?',
    'offline',
    '--strategy',
    'search',
    '--max-nodes',
    '40',
    '--project',
    'Handbook',
  );
  const u = gateway.url;
  const shoot = async (name: string, url: string, act?: (p: any) => Promise<any>, opts: any = {}) => {
    const page = await (await browser.newContext({ viewport: { width: 1440, height: 900 }, ...opts })).newPage();
    page.on('pageerror', (e: any) => console.log('ERR', name, e.message));
    await page.goto(url);
    await page.waitForTimeout(1500);
    try {
      await act?.(page);
    } catch (e: any) {
      console.log(name, e.message.slice(0, 300));
    }
    await page.waitForTimeout(700);
    await page.screenshot({ path: `/tmp/s-${name}.png` });
    await page.context().close();
  };
  await shoot('hw-graph', `${u}/runs/${hw}?view=graph`);
  await shoot('hw-details', `${u}/runs/${hw}?view=graph`, (p) => p.keyboard.press('i'));
  await shoot('hw-answer', `${u}/runs/${hw}`);
  await shoot('node', `${u}/runs/${search}?view=graph`, async (p) => {
    await p.getByRole('treeitem').nth(1).click();
  });
  await shoot('node-tools', `${u}/runs/${tree}?view=graph`, async (p) => {
    await p.getByRole('treeitem').nth(1).click();
    await p.getByRole('tab', { name: /Tools/ }).click();
  });
  await shoot('time', `${u}/runs/${tree}?view=time`, async (p) => p.locator('.event').nth(5).click());
  await shoot('documents', `${u}/runs/${tree}?view=documents`, async (p) => p.getByRole('treeitem').nth(1).click());
  await shoot('projects', `${u}/projects`);
  await shoot('project', `${u}/projects`, async (p) => {
    await p.getByText('Handbook').first().click();
    await p.waitForTimeout(800);
    await p.getByRole('treeitem').nth(3).click();
  });
  await shoot('fork', `${u}/runs/${tree}?view=graph`, async (p) => {
    await p.getByRole('treeitem').nth(1).click();
    await p.keyboard.press('k');
  });
  await shoot('options', `${u}/`, async (p) => {
    await p.getByText('Options').click();
    await p.getByText('Search', { exact: true }).click();
  });
  await shoot('context', `${u}/`, async (p) => {
    await p.getByTestId('ask-context').click();
  });
  await shoot('compare', `${u}/compare?a=${tree}&b=${search}`);
  await shoot('answer', `${u}/runs/${tree}`);
  await shoot('answer-hover', `${u}/runs/${tree}`, async (p) => p.locator('.cite').first().hover());
  await shoot('narrow-answer', `${u}/runs/${tree}`, undefined, { viewport: { width: 390, height: 844 } });
  await shoot('narrow-home', `${u}/`, undefined, { viewport: { width: 390, height: 844 } });
  await shoot('help', `${u}/runs/${tree}?view=graph`, (p) => p.keyboard.press('?'));
  await browser.close();
  await gateway.stop();
}
