// The list of runs and the ways to start one, against a real gateway.

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { duration } from '../src/lib/format';
import { launch } from './browser';
import { QUICK } from './quick';
import { Gateway } from './gateway';
import { chooseModel, close, details, hide, open, openContext, openOptions, show, until } from './page';

const gateway = new Gateway();
let browser: Browser;
let notes: string;

beforeAll(async () => {
  notes = await mkdtemp(join(tmpdir(), 'tree-agent-notes-'));
  await writeFile(join(notes, 'a.md'), '# Tides\n\nTides follow the moon.\n');
  [browser] = await Promise.all([launch(), gateway.start()]);
});
afterAll(async () => {
  await browser?.close();
  await gateway.stop();
  await rm(notes, { recursive: true, force: true });
});

describe('the list of runs', () => {
  it('says what to do when it is empty', async () => {
    const page = await open(browser, gateway.url);
    await page.getByText('No runs yet').waitFor();
    await page.keyboard.press('n');
    await page.locator('#objective:focus').waitFor();
    await page.getByRole('group', { name: 'Examples' }).getByRole('button').first().click();
    expect(await page.locator('#objective').inputValue()).not.toBe('');
    expect(await page.getByRole('button', { name: 'Start run' }).isEnabled()).toBe(true);
    // A question that has begun is still there after a reload.
    await page.locator('#objective').fill('Half a ques');
    await page.reload();
    await page.waitForFunction(
      () => document.querySelector<HTMLTextAreaElement>('#objective')?.value === 'Half a ques',
    );
    await close(page);
  });

  it('starts a run in the context of a project, and validates the fields', QUICK, async () => {
    await gateway.cli('import', notes, '--project', 'Coast');
    await gateway.cli('import', notes, '--project', 'Desert');
    const page = await open(browser, gateway.url);
    const start = page.getByRole('button', { name: 'Start run' });
    expect(await start.isDisabled()).toBe(true);
    await page.locator('#objective').fill('What moves the tides?');
    expect(await start.isDisabled()).toBe(false);
    await openContext(page);
    expect(await start.isDisabled()).toBe(true);
    await page.getByLabel('Project', { exact: true }).fill('coa');
    await page.getByText('Desert').waitFor({ state: 'detached' });
    await page.getByRole('checkbox', { name: /Coast/ }).check();
    await page.getByRole('button', { name: 'Done' }).click();
    expect(await start.isDisabled()).toBe(false);
    const estimate = page.getByTestId('estimate');
    await estimate.filter({ hasText: 'At most 1,000 nodes' }).waitFor();
    await openOptions(page);
    await page.getByLabel('Depth').fill('99');
    await page.getByText('whole number from 0 to 64').waitFor();
    expect(await start.isDisabled()).toBe(true);
    await page.getByLabel('Depth').fill('2');
    await page.getByLabel('Nodes', { exact: true }).fill('40');
    await estimate.filter({ hasText: 'At most 40 nodes' }).waitFor();
    await page.getByLabel('Minutes').fill('5');
    await page.locator('#objective').fill(' ');
    await page.locator('#objective').blur();
    await page.locator('#objective-problem').waitFor();
    await page.locator('#objective').fill('What moves the tides?');
    // The strategies that the server has.
    expect(await page.getByRole('radiogroup', { name: 'Strategy' }).locator('b').allTextContents()).toEqual([
      'Tree',
      'Homework',
      'Search',
    ]);
    // Nor are models that are not set; whoever types one sees why it cannot be used.
    const models = await until(
      () => page.locator('#models option').evaluateAll((options) => options.map((o) => (o as HTMLOptionElement).value)),
      (m) => m.length > 1,
      'the server lists its models',
    );
    expect(models).toContain('offline');
    expect(models).not.toContain('fast');
    await chooseModel(page, 'fast');
    await page.locator('#model-problem').filter({ hasText: 'TREE_AGENT_MODEL_FAST' }).waitFor();
    await chooseModel(page, 'offline');
    await start.click();
    await page.waitForURL('**/runs/*');
    await page.getByTestId('context').filter({ hasText: 'Project context: Coast' }).waitFor();
    await page.locator('[data-connection="ended"]').waitFor();
    const budgets = async (): Promise<void> => {
      const run = page.url().split('/').at(-1)!;
      const [created] = (await gateway.cli('events', run, '--type', 'tree.run_created', '-o', 'jsonl')).split('\n');
      const { payload } = JSON.parse(created!) as { payload: object };
      expect(payload).toMatchObject({
        model: 'offline',
        budgets: { maxDepth: 2, maxNodes: 40, maxWallClockMs: 300_000 },
      });
    };
    await budgets();

    // Another context is another run with the same objective.
    const first = page.url();
    await page.getByRole('button', { name: 'More about this run' }).click();
    await page.getByRole('button', { name: 'Change context' }).click();
    const change = page.getByRole('button', { name: 'Start new run' });
    // The run's own context is preselected.
    await page.getByText('already has this context').waitFor();
    expect(await page.getByRole('checkbox', { name: /Coast/ }).isChecked()).toBe(true);
    expect(await change.isDisabled()).toBe(true);
    await page.getByRole('button', { name: 'Leave out Coast' }).click();
    expect(await change.isDisabled()).toBe(true);
    await page.getByRole('checkbox', { name: /Desert/ }).check();
    await change.click();
    await page.waitForURL((url) => url.href !== first);
    await page.getByTestId('context').filter({ hasText: 'Project context: Desert' }).waitFor();
    await page.getByRole('heading', { level: 1, name: 'What moves the tides?' }).waitFor();
    await page.locator('[data-connection="ended"]').waitFor();
    await budgets();
    const second = page.url().split('/').at(-1)!;
    await page.getByRole('link', { name: 'All runs' }).click();
    await page.locator(`[data-run-id="${second}"]`).getByTestId('context').filter({ hasText: 'Desert' }).waitFor();
    await page
      .locator(`[data-run-id="${first.split('/').at(-1)!}"]`)
      .getByTestId('context')
      .filter({ hasText: 'Coast' })
      .waitFor();
    await close(page);
  });

  it('shows that it loads and that the gateway does not answer, and recovers by itself', async () => {
    const page = await open(browser, 'about:blank');
    let answer = (): void => {};
    const held = new Promise<void>((resolve) => (answer = resolve));
    await page.route('**/treeagent.v1.RunService/WatchRuns', async (route) => {
      await held;
      await route.continue();
    });
    await page.goto(`${gateway.url}/runs`);
    await page.getByText('Loading runs').waitFor();
    answer();
    await page.locator('[data-run-id]').first().waitFor();
    await gateway.kill();
    await page.getByText('The gateway does not answer. The list may be out of date').waitFor();
    expect(await page.locator('[data-run-id]').count()).toBeGreaterThan(0);
    await gateway.start();
    await page.getByText('The list may be out of date').waitFor({ state: 'detached' });
    await page.unrouteAll({ behavior: 'ignoreErrors' });
    await close(page);
  });

  it('filters, searches, pages, and shows statuses as they change', async () => {
    for (let i = 0; i < 26; i++) await gateway.run(`Filler number ${i}`, 'scripted:fanout=1,depth=0');
    await gateway.run('A run that fails', 'scripted:fail=rejected,fail_role=any,depth=0');
    const slow = await gateway.run('A slow run', 'scripted:fanout=2,depth=1,latency_ms=1500');
    const page = await open(browser, `${gateway.url}/runs`);
    const row = page.locator(`[data-run-id="${slow}"]`);
    await row.waitFor();
    expect(['queued', 'running']).toContain(await row.getAttribute('data-status'));
    // Both parts have ended, and are put together.
    await row.getByTestId('row-progress').filter({ hasText: '2/3' }).waitFor();
    await until(
      () => row.getAttribute('data-status'),
      (s) => s === 'completed',
      'the row follows its run',
    );
    expect(await page.locator('[data-run-id]').count()).toBe(25);
    await page.getByRole('button', { name: 'Older' }).click();
    await page.getByText('Page 2').waitFor();
    await page.getByText('What moves the tides?').first().waitFor();
    await page.getByRole('button', { name: 'Newer' }).click();
    await page.getByRole('searchbox').fill('filler number 1');
    await until(
      () => page.locator('[data-run-id]').count(),
      (n) => n === 11,
      'the search narrows the list',
    );
    await page.reload();
    await until(
      () => page.locator('[data-run-id]').count(),
      (n) => n === 11,
      'the search survives a reload',
    );
    await page.getByRole('searchbox').fill('nothing has this');
    await page.getByText('No matching runs').waitFor();
    await page.getByRole('button', { name: 'Show all runs' }).click();
    await page.getByLabel('Filter by status').selectOption('Failed');
    await until(
      () => page.locator('[data-run-id]').count(),
      (n) => n === 1,
      'only the failed run is left',
    );
    expect(page.url()).toContain('status=failed');
    await close(page);
  });

  it('follows runs over one stream, without polling', QUICK, async () => {
    const page = await open(browser, 'about:blank');
    const calls: string[] = [];
    page.on(
      'request',
      (request) =>
        void (/RunService\/(?!Estimate)/.test(request.url()) && calls.push(request.url().split('/').at(-1)!)),
    );
    await page.goto(`${gateway.url}/runs`);
    await page.locator('[data-run-id]').first().waitFor();
    const run = await gateway.run('Started while the list is open', 'scripted:fanout=1,depth=1,latency_ms=500');
    const row = page.locator(`[data-run-id="${run}"]`);
    await row.waitFor();
    expect(await page.locator('[data-run-id]').first().getAttribute('data-run-id')).toBe(run);
    await until(
      () => row.getAttribute('data-status'),
      (s) => s === 'completed',
      'the row follows its run',
    );
    const { run: ended } = JSON.parse(await gateway.rpc('RunService/GetRun', JSON.stringify({ runId: run }))) as {
      run: { startedAt: string; endedAt: string };
    };
    const ms = Date.parse(ended.endedAt) - Date.parse(ended.startedAt);
    expect([ms - 1, ms, ms + 1].map(duration)).toContain(await row.getByTestId('row-duration').innerText());
    expect(calls).toEqual(['WatchRuns']);
    await hide(page);
    await show(page);
    await until(
      async () => calls.length,
      (n) => n === 2,
      'it resumes when it is shown again',
    );
    const other = await gateway.run('Started after it was shown again', 'scripted:fanout=1,depth=0');
    await page.locator(`[data-run-id="${other}"]`).waitFor();
    expect(calls).toEqual(['WatchRuns', 'WatchRuns']);
    await close(page);
  });

  it('shows names and labels, and filters by them', async () => {
    const page = await open(browser, `${gateway.url}/runs?new=1`);
    await page.locator('#objective').fill('Compare the tides of two coasts');
    await chooseModel(page, 'offline');
    await page.getByLabel('Name', { exact: true }).fill('Two coasts');
    await page.getByLabel('Labels').fill('Team=sea');
    await page.getByText('“Team” cannot be a label').waitFor();
    expect(await page.getByRole('button', { name: 'Start run' }).isDisabled()).toBe(true);
    await page.getByLabel('Labels').fill('team=sea, urgent');
    await page.getByRole('button', { name: 'Start run' }).click();
    await page.waitForURL('**/runs/*');
    const run = page.url().split('/').at(-1)!;
    await page.getByRole('heading', { level: 1, name: 'Two coasts' }).waitFor();
    await (await details(page)).getByRole('link', { name: 'team=sea' }).click();
    await page.waitForURL('**/runs?label=team%3Dsea');
    const row = page.locator(`[data-run-id="${run}"]`);
    await until(
      () => page.locator('[data-run-id]').count(),
      (n) => n === 1,
      'only the run with the label is left',
    );
    await row.getByRole('link', { name: 'Two coasts' }).waitFor();
    await row.getByText('Compare the tides of two coasts').waitFor();
    await page.getByLabel('Labels').fill('team=land');
    await page.getByText('No matching runs').waitFor();
    await page.getByRole('button', { name: 'Show all runs' }).click();
    await row.getByRole('button', { name: 'urgent' }).click();
    await until(
      () => page.locator('[data-run-id]').count(),
      (n) => n === 1,
      'a label of a row filters the list',
    );
    await page.getByLabel('Labels').fill('');
    await page.waitForURL((url) => !url.searchParams.has('label'));
    for (const [filter, text] of [
      ['Run id', run.slice(-6)],
      ['Filter by model', 'offline'],
      ['From', today()],
      ['To', today()],
    ] as const)
      await page.getByLabel(filter, { exact: true }).fill(text);
    await until(
      () => page.locator('[data-run-id]').count(),
      (n) => n === 1,
      'the filters work together',
    );
    await page.reload();
    await row.waitFor();
    await page.getByLabel('To', { exact: true }).fill('2001-01-01');
    await page.getByText('No matching runs').waitFor();
    await close(page);
  });

  it('deletes runs that have ended, once it is confirmed', async () => {
    const active = await gateway.run('Still active', 'scripted:fanout=1,depth=0,latency_ms=600000');
    const first = await gateway.run('Delete from the list', 'scripted:fanout=1,depth=0');
    const second = await gateway.run('Delete from its page', 'scripted:fanout=1,depth=0');
    const page = await open(browser, `${gateway.url}/runs`);
    const row = (run: string) => page.locator(`[data-run-id="${run}"]`);
    await row(active).waitFor();
    const menu = (run: string) => row(run).getByRole('button', { name: /^Actions/ });
    await menu(active).click();
    await row(active).getByRole('button', { name: 'Copy id' }).waitFor();
    expect(await row(active).getByRole('button', { name: 'Delete…' }).count()).toBe(0);
    await menu(first).click();
    await row(first).getByRole('button', { name: 'Delete…' }).click();
    const dialog = page.getByRole('dialog', { name: 'Delete this run?' });
    await dialog.getByText('Delete from the list').waitFor();
    await dialog.getByRole('button', { name: 'Keep run' }).click();
    await dialog.waitFor({ state: 'detached' });
    expect(await row(first).count()).toBe(1);
    await menu(first).click();
    await row(first).getByRole('button', { name: 'Delete…' }).click();
    await dialog.getByRole('button', { name: 'Delete run' }).click();
    await row(first).waitFor({ state: 'detached' });
    await row(second).getByRole('link').click();
    await page.getByRole('button', { name: 'More about this run' }).click();
    await page.getByRole('button', { name: 'Delete run' }).click();
    await dialog.getByRole('button', { name: 'Delete run' }).click();
    await page.waitForURL('**/runs');
    await row(active).waitFor();
    expect(await row(second).count()).toBe(0);
    await page.goto(`${gateway.url}/runs/${second}`);
    await page.getByText('Run not found').waitFor();
    await close(page);
  });
});

describe('the table', () => {
  it('filters by context, sorts what it shows, fills the form from a run, and deletes what is selected', async () => {
    await gateway.cli('import', notes, '--project', 'Coast');
    const of = (objective: string, ...more: string[]) =>
      gateway.run(objective, 'scripted:fanout=1,depth=0', '--label', 'kind=table', ...more);
    const everywhere = await of('B everywhere');
    const coast = await of('A of the coast', '--project', 'Coast', '--max-nodes', '7');
    const page = await open(browser, `${gateway.url}/runs?label=kind%3Dtable`);
    const shown = () =>
      page.locator('[data-run-id]').evaluateAll((rows) => rows.map((r) => r.getAttribute('data-run-id')));
    const shows = (runs: string[], what: string) => until(shown, (ids) => ids.join() === runs.join(), what);
    await shows([coast, everywhere], 'newest first');
    await page.getByRole('button', { name: 'Question' }).click();
    expect(new URL(page.url()).searchParams.get('sort')).toBe('question');
    await page.getByRole('button', { name: 'Question' }).click();
    await shows([everywhere, coast], 'from the end of the alphabet');
    await page.reload();
    await shows([everywhere, coast], 'the order survives a reload');
    await page.getByLabel('Filter by context').selectOption('Global');
    await shows([everywhere], 'only the run with all projects');
    await page.getByLabel('Filter by context').focus();
    await page.getByLabel('Filter by context').selectOption('Coast');
    await shows([coast], 'only the run of the project');

    await page.getByRole('button', { name: /^Actions/ }).click();
    await page.getByRole('button', { name: 'Run again' }).click();
    await page.locator('#objective:focus').waitFor();
    expect(await page.locator('#objective').inputValue()).toBe('A of the coast');
    await page.getByTestId('ask-context').filter({ hasText: 'Coast' }).waitFor();
    await page.getByTestId('chosen-options').filter({ hasText: 'nodes 7' }).waitFor();
    await page.keyboard.press('Control+Enter');
    await page.waitForURL(/runs\/[0-9a-f-]{36}$/);
    const again = new URL(page.url()).pathname.split('/').at(-1)!;
    await page.locator('[data-connection="ended"]').waitFor();

    await page.goto(`${gateway.url}/?label=kind%3Dtable&sort=question`);
    // Those with the same question stay as they were, newest first.
    await shows([again, coast, everywhere], 'all three');
    for (const run of [coast, again]) await page.locator(`[data-run-id="${run}"]`).getByRole('checkbox').check();
    await page.getByRole('group', { name: 'Selection' }).getByRole('link', { name: 'Compare' }).waitFor();
    await page
      .getByRole('group', { name: 'Selection' })
      .getByRole('button', { name: /^Delete/ })
      .click();
    await page.getByRole('button', { name: 'Delete runs' }).click();
    await shows([everywhere], 'both are gone');
    await close(page);
  });
});

/** The current day in the browser's time zone, as date fields hold it. */
function today(): string {
  const now = new Date();
  return [now.getFullYear(), now.getMonth() + 1, now.getDate()].map((part) => String(part).padStart(2, '0')).join('-');
}
