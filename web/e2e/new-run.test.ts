// The form for a new run, against a real gateway: what happens when an answer is lost, and on pages without HTTPS.

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { launch } from './browser';
import { QUICK } from './quick';
import { Gateway } from './gateway';
import { chooseModel, chooseProject, chooseStrategy, close, connection, open, openOptions, treeOf } from './page';

/** A name that is not localhost: over plain HTTP the browser takes its pages for insecure ones. */
const HOST = 'trees.example';

/** Documents for a search. */
const CORPUS = new URL('../../crates/model/tests/corpus', import.meta.url).pathname;

const gateway = new Gateway([], { TREE_AGENT_HOSTS: HOST });
let browser: Browser;

beforeAll(async () => {
  [browser] = await Promise.all([launch(`--host-resolver-rules=MAP ${HOST} 127.0.0.1`), gateway.start()]);
});
afterAll(async () => {
  await browser?.close();
  await gateway.stop();
});

/** Lets a request through, and cuts its answer off. */
async function cutAnswers(page: Page, method: string): Promise<() => Promise<void>> {
  const pattern = `**/treeagent.v1.${method}`;
  await page.route(pattern, async (route) => {
    await route.fetch();
    await route.abort('connectionreset');
  });
  return () => page.unroute(pattern);
}

async function runsAbout(objective: string): Promise<string[]> {
  const { runs = [] } = JSON.parse(
    await gateway.rpc('RunService/ListRuns', JSON.stringify({ objectiveContains: objective })),
  ) as { runs?: { runId: string }[] };
  return runs.map((run) => run.runId);
}

const start = (page: Page): Promise<void> => page.getByRole('button', { name: 'Start run' }).click();

describe('a new run whose answer is lost', () => {
  it('is not started twice', async () => {
    const page = await open(browser, `${gateway.url}/runs?new=1`);
    const restore = await cutAnswers(page, 'RunService/CreateRun');
    await page.locator('#objective').fill('Only once');
    await chooseModel(page, 'offline');
    for (let tries = 0; tries < 2; tries++) {
      await start(page);
      await page.getByRole('alert').filter({ hasText: 'it will not start twice' }).waitFor();
      await page.getByRole('button', { name: 'Start run' }).and(page.locator(':enabled')).waitFor();
    }
    const [run, ...others] = await runsAbout('Only once');
    expect(others).toEqual([]);
    await restore();
    await start(page);
    await page.waitForURL(`**/runs/${run}`);
    expect(await runsAbout('Only once')).toEqual([run]);
    await close(page);
  });

  it('is another run when the form was changed', async () => {
    const page = await open(browser, `${gateway.url}/runs?new=1`);
    const restore = await cutAnswers(page, 'RunService/CreateRun');
    await page.locator('#objective').fill('First thought');
    await chooseModel(page, 'offline');
    await start(page);
    await page.getByRole('alert').waitFor();
    await restore();
    await page.locator('#objective').fill('Second thought');
    await start(page);
    await page.waitForURL('**/runs/*');
    const [first, second] = [await runsAbout('First thought'), await runsAbout('Second thought')];
    expect([first.length, second.length]).toEqual([1, 1]);
    expect(page.url()).toContain(second[0]!);
    await close(page);
  });
});

interface EventLine {
  seq: number;
  type: string;
  nodeId: string;
  payload: {
    leafNodeId?: string;
    reason?: string;
    search?: { concurrency: number; maxDepth: number };
    objective?: string;
  };
}

describe('a search', () => {
  it('is started with its options, and shows topics that wait, the picked one and finished ones', QUICK, async () => {
    await gateway.cli('import', CORPUS, '--project', 'Harbour');
    // One document has more sections than its own topic quotes. The others are topics below it.
    const handbook = await mkdtemp(join(tmpdir(), 'tree-agent-handbook-'));
    const section = (name: string) => `## ${name}\n\n${`The harbour keeps its ${name} in order. `.repeat(12)}\n\n`;
    const names = ['tugs', 'buoys', 'lights', 'ropes', 'gates', 'scales', 'ladders', 'radios'];
    await writeFile(join(handbook, 'handbook.md'), `# Handbook\n\n${names.map(section).join('')}`);
    await gateway.cli('import', handbook, '--project', 'Harbour');
    await rm(handbook, { recursive: true });
    const page = await open(browser, `${gateway.url}/runs?new=1`);
    await page.locator('#objective').fill('Everything about the harbour');
    await chooseProject(page, 'Harbour');
    await chooseStrategy(page, 'Search');
    await chooseModel(page, 'offline');
    await page.getByLabel('Topics at a time').fill('0');
    await page.getByRole('alert').filter({ hasText: 'from 1 to 256' }).waitFor();
    await page.getByRole('button', { name: 'Start run' }).and(page.locator(':disabled')).waitFor();
    await page.getByLabel('Topics at a time').fill('1');
    await page.getByLabel('Levels').fill('3');

    // What only the server can know is shown at its field.
    await page.getByText('More', { exact: true }).click();
    await page.getByLabel('Document prompt').fill('Write about {{heading}}.');
    await start(page);
    await page.locator('#search-document-problem').filter({ hasText: '{{heading}}' }).waitFor();
    await page.getByLabel('Document prompt').fill('Write about {{title}}.');
    await start(page);
    await page.waitForURL('**/runs/*');
    const run = new URL(page.url()).pathname.split('/').pop()!;
    await connection(page, 'ended');

    const log = (await gateway.cli('events', run, '-o', 'jsonl'))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as EventLine);
    expect(log[0]!.payload.search).toMatchObject({
      concurrency: 1,
      maxDepth: 3,
      prompts: { document: 'Write about {{title}}.' },
    });
    const pick = log.find((event) => event.type === 'tree.leaf_picked')!;
    const leaf = pick.payload.leafNodeId!;

    await close(page);

    // At that moment: the picked topic and others are hollow, those of the first level are finished.
    const then = await open(browser, `${gateway.url}/runs/${run}?view=graph&seq=${pick.seq}&node=${leaf}`);
    const picked = then.locator(`[data-card="${leaf}"]`);
    await picked.getByTestId('pick').waitFor();
    expect(await picked.getAttribute('data-expansion')).toBe('unexpanded');
    await then
      .getByTestId('picked')
      .filter({ hasText: pick.payload.reason!.slice(0, 40) })
      .waitFor();
    await then.locator(`[data-card][data-expansion="expanded"], [data-card][data-expansion="leaf"]`).first().waitFor();
    await close(then);

    // At the end it is finished, and still says in which place it was picked.
    const end = await open(browser, `${gateway.url}/runs/${run}?view=graph&node=${leaf}`);
    await end.locator(`[data-card="${leaf}"]:is([data-expansion="expanded"], [data-expansion="leaf"])`).waitFor();
    expect(await end.locator(`[data-card="${leaf}"]`).getByTestId('pick').innerText()).toMatch(/^\d+$/);
    expect((await treeOf(end))[leaf]).toBe('completed');
    await close(end);
  });

  it('offers no budgets of plans', async () => {
    const page = await open(browser, `${gateway.url}/runs?new=1`);
    await openOptions(page);
    await page.getByLabel('Replans per node').waitFor();
    await chooseStrategy(page, 'Search');
    await page.getByLabel('Nodes', { exact: true }).waitFor();
    expect(await page.getByLabel('Replans per node').count()).toBe(0);
    await close(page);
  });
});

describe('homework', () => {
  it('is started with its iterations, and shows which iteration and branch a task belongs to', async () => {
    await gateway.cli('import', CORPUS, '--project', 'Harbour');
    const page = await open(browser, `${gateway.url}/runs?new=1`);
    await page.locator('#objective').fill('When may a pilot refuse? What does a crane cost?');
    await chooseProject(page, 'Harbour');
    await chooseStrategy(page, 'Homework');
    await chooseModel(page, 'offline');
    await openOptions(page);
    expect(await page.getByLabel('Replans per node').count()).toBe(0);
    await page.getByLabel('Iterations').fill('2');
    await start(page);
    await page.waitForURL('**/runs/*');
    const run = new URL(page.url()).pathname.split('/').pop()!;
    await connection(page, 'ended');
    await page.getByTestId('row-task').filter({ hasText: 'pilots · 1' }).waitFor();
    const groups = await page.getByTestId('row-iteration').allTextContents();
    expect(groups[0]).toBe('Iteration 1');
    expect(new Set(groups).size).toBe(groups.length);
    const log = (await gateway.cli('events', run, '-o', 'jsonl'))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as EventLine);
    expect(log.filter((event) => event.type === 'tree.rollup_updated').length).toBeGreaterThan(0);
    await close(page);
  });
});

describe('a page over plain HTTP', () => {
  it('can start a run', async () => {
    const page = await open(browser, `${gateway.url.replace('127.0.0.1', HOST)}/runs?new=1`, { permissions: [] });
    expect(await page.evaluate(() => [isSecureContext, typeof crypto.randomUUID])).toEqual([false, 'undefined']);
    await page.locator('#objective').fill('From an insecure page');
    await chooseModel(page, 'offline');
    await start(page);
    await page.waitForURL('**/runs/*');
    expect(await runsAbout('From an insecure page')).toHaveLength(1);
    await close(page);
  });
});
