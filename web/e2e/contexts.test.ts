// Contexts of runs: the user stories of their selection, against a real gateway.

import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { launch } from './browser';
import { Gateway } from './gateway';
import { chooseModel, close, connection, details, open, openContext, openOptions } from './page';

/** Documents to import. */
const CORPUS = new URL('../../crates/model/tests/corpus', import.meta.url).pathname;

const gateway = new Gateway();
let browser: Browser;

beforeAll(async () => {
  [browser] = await Promise.all([launch(), gateway.start()]);
  for (const name of ['Harbour', 'Island', 'Jungle']) await gateway.cli('import', CORPUS, '--project', name);
  await gateway.cli('projects', 'archive', 'Jungle');
});
afterAll(async () => {
  await browser?.close();
  await gateway.stop();
});

const runOf = (page: Page): string => new URL(page.url()).pathname.split('/').pop()!;

interface Payload {
  objective: string;
  context: { scope: string; projectIds: string[] };
  copyOf?: string;
  readOnly?: boolean;
  budgets: { maxNodes: number };
  model: string;
}

async function created(run: string): Promise<Payload> {
  const [first] = (await gateway.cli('events', run, '--type', 'tree.run_created', '-o', 'jsonl')).split('\n');
  return (JSON.parse(first!) as { payload: Payload }).payload;
}

describe('a user', () => {
  it('starts a run in project context (story 1), and sees it (story 4)', async () => {
    const page = await open(browser, gateway.url);
    await openContext(page);
    await page.getByText('Global context').waitFor();
    await page.getByRole('checkbox', { name: /Harbour/ }).waitFor();
    // Only active projects are offered.
    expect(await page.getByRole('checkbox', { name: /Jungle/ }).count()).toBe(0);
    await page.getByRole('checkbox', { name: /Harbour/ }).check();
    await page.getByRole('button', { name: 'Done' }).click();
    await openOptions(page);
    await page.getByRole('checkbox', { name: 'Read-only' }).check();
    await page.locator('#objective').fill('Where do ships lie?');
    await chooseModel(page, 'offline');
    await page.getByRole('button', { name: 'Start run' }).click();
    await page.waitForURL('**/runs/*');
    await page.getByTestId('context').filter({ hasText: 'Project context: Harbour' }).waitFor();
    await page.getByTestId('read-only').waitFor();
    await connection(page, 'ended');
    expect(await created(runOf(page))).toMatchObject({ context: { scope: 'project' }, readOnly: true });
    await close(page);
  });

  it('changes from global to project context, which is another run (story 2), and both are linked', async () => {
    const first = await gateway.run('What do ships need?', 'scripted:fanout=2,depth=1');
    const page = await open(browser, `${gateway.url}/runs/${first}`);
    await page.getByTestId('context').filter({ hasText: 'Global context' }).waitFor();
    await page.getByRole('button', { name: 'More about this run' }).click();
    await page.getByRole('button', { name: 'Change context' }).click();
    await page.getByText('already has this context').waitFor();
    const start = page.getByRole('button', { name: 'Start new run' });
    expect(await start.isDisabled()).toBe(true);
    await page.getByText('Project context', { exact: true }).click();
    await page.getByRole('checkbox', { name: /Island/ }).check();
    await page.getByRole('checkbox', { name: /Harbour/ }).check();
    await start.click();
    await page.waitForURL((url) => !url.pathname.endsWith(first));
    const copy = runOf(page);
    const shown = page.getByTestId('context').filter({ hasText: 'Project context:' });
    await shown.filter({ hasText: 'Island' }).filter({ hasText: 'Harbour' }).waitFor();
    const [before, after] = [await created(first), await created(copy)];
    expect(after).toMatchObject({
      objective: before.objective,
      model: before.model,
      budgets: before.budgets,
      copyOf: first,
    });
    expect([before.context.scope, after.context.scope]).toEqual(['global', 'multi_project']);
    // Each page leads to the other run.
    await details(page);
    await page.getByTestId('copy-of').getByRole('link', { name: 'What do ships need?' }).click();
    await page.waitForURL(`**/runs/${first}`);
    await details(page);
    await page.getByTestId('copies').getByTestId('context').filter({ hasText: 'Island' }).waitFor();
    await page.getByTestId('copies').getByRole('link', { name: 'What do ships need?' }).click();
    await page.waitForURL(`**/runs/${copy}`);
    await close(page);
  });

  it('is offered recent contexts first', async () => {
    const page = await open(browser, `${gateway.url}/runs?new=1`);
    const start = async (objective: string): Promise<void> => {
      await page.getByRole('button', { name: 'Done' }).click();
      await page.locator('#objective').fill(objective);
      await chooseModel(page, 'offline');
      await page.getByRole('button', { name: 'Start run' }).click();
      await page.waitForURL('**/runs/*');
    };
    await openContext(page);
    const rows = page.getByRole('group', { name: 'Projects', exact: true }).getByRole('checkbox');
    await rows.first().waitFor();
    expect(await page.getByRole('group', { name: 'Recent contexts' }).count()).toBe(0);
    await page.getByRole('checkbox', { name: /Island/ }).check();
    await start('Recently');
    await page.goto(`${gateway.url}/runs?new=1`);
    await openContext(page);
    const recent = page.getByRole('group', { name: 'Recent contexts' });
    await recent.getByRole('button', { name: 'Island' }).click();
    await page.getByRole('button', { name: 'Leave out Island' }).waitFor();
    expect(await rows.first().isChecked()).toBe(true);
    await start('Again');
    await page.getByTestId('context').filter({ hasText: 'Project context: Island' }).waitFor();
    // Once it is archived, it is offered no more.
    await gateway.cli('projects', 'archive', 'Island');
    await page.goto(`${gateway.url}/runs?new=1`);
    await openContext(page);
    await page.getByRole('checkbox', { name: /Harbour/ }).waitFor();
    expect(await recent.count()).toBe(0);
    await gateway.cli('projects', 'unarchive', 'Island');
    await close(page);
  });

  it('reads beyond fifty projects, and pins a context of several', async () => {
    for (let i = 0; i < 60; i++)
      await gateway.rpc('ProjectService/CreateProject', JSON.stringify({ name: `Zone ${String(i).padStart(2, '0')}` }));
    const page = await open(browser, gateway.url);
    await openContext(page);
    const boxes = page.getByRole('group', { name: 'Projects', exact: true }).getByRole('checkbox');
    await boxes.nth(49).waitFor();
    expect(await boxes.count()).toBe(50);
    await page.getByRole('button', { name: 'More projects' }).click();
    await page.getByRole('checkbox', { name: /Zone 59/ }).check();
    await page.getByRole('checkbox', { name: /Zone 58/ }).check();
    expect(await boxes.count()).toBe(62);
    await page.getByRole('button', { name: 'Pin this context' }).click();
    await page.getByRole('button', { name: 'Done' }).click();
    expect(await page.getByTestId('ask-context').getAttribute('title')).toBe('Zone 59, Zone 58');
    await page.evaluate(() => sessionStorage.clear());
    await page.reload();
    await openContext(page);
    await page
      .getByRole('group', { name: 'Pinned contexts' })
      .getByRole('button', { name: 'Zone 59, Zone 58' })
      .click();
    await page.getByRole('button', { name: 'Leave out Zone 58' }).waitFor();
    await page.getByRole('button', { name: 'Pinned', exact: true }).click();
    await page.getByRole('group', { name: 'Pinned contexts' }).waitFor({ state: 'detached' });
    await close(page);
  });
});
