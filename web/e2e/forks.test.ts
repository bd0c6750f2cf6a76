// Forks, against a real gateway with a fake model: by mouse and by keyboard, with a second page that watches the
// parent.

import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { launch } from './browser';
import { Gateway } from './gateway';
import { aggregated, direct, executed, LanguageModel, plan } from './language-model';
import { close, connection, details, open, treeItem, until } from './page';
import { confirm, KEYBOARD, MOUSE, type Hand } from './steer';

const step = (title: string) => ({
  id: title.slice(0, 5).toLowerCase(),
  title,
  reason: 'It is a shore.',
  successCriteria: ['It is walked.'],
});
const SEALS = 'Count the seals, too.';

/** What the executors were asked. */
const asked: string[] = [];
const model = new LanguageModel(({ role, said }) => {
  const last = said.slice(said.lastIndexOf('"user"'));
  if (role === 'planner')
    return /(North|South) shore/.test(last) ? direct('One walk.') : plan([step('North shore'), step('South shore')]);
  if (role === 'aggregator') return aggregated(said.includes('Nine seals') ? 'Walked, with nine seals.' : 'Walked.');
  asked.push(said);
  return said.includes(SEALS) ? executed('Nine seals.', '# Nine seals') : executed('Walked.', '# Walked');
});

let gateway: Gateway;
let browser: Browser;

beforeAll(async () => {
  gateway = await model.gateway();
  [browser] = await Promise.all([launch(), gateway.start()]);
});
afterAll(async () => {
  await browser?.close();
  await gateway?.stop();
  await model.close();
});

/** Waits until the page shows a run other than these, and returns its id. */
async function other(page: Page, ...known: string[]): Promise<string> {
  const at = (): string => /\/runs\/([0-9a-f-]+)$/.exec(new URL(page.url()).pathname)?.[1] ?? '';
  return until(
    async () => at(),
    (id) => id !== '' && !known.includes(id),
    'the fork is opened',
  );
}

/** Waits for the end of a run, which shows the answer, and goes back to the graph. */
async function inGraph(page: Page): Promise<void> {
  await connection(page, 'ended');
  await page.getByRole('button', { name: 'Graph', exact: true }).click();
}

/** The event after which both leaves are at work. */
async function bothAtWork(run: string): Promise<number> {
  const lines = (await gateway.cli('events', run, '-o', 'jsonl')).trim().split('\n');
  const events = lines.map((line) => JSON.parse(line) as { seq: number; type: string; payload: { status?: string } });
  return events.filter((event) => event.type === 'tree.node_status' && event.payload.status === 'executing')[1]!.seq;
}

const HANDS: [string, Hand][] = [
  ['by mouse', MOUSE],
  ['by keyboard', KEYBOARD],
];

describe.each(HANDS)('a person %s', (name, hand) => {
  it('forks an ended run, retries its nodes and forks it at an earlier moment, and the run does not change', async () => {
    const objective = `Walk the island ${name}`;
    const calls = (): string[] => asked.filter((said) => said.includes(objective));
    const run = await gateway.run(objective, 'llm');
    const ended = await until(
      () => gateway.graph(run),
      (graph) => graph.status === 'completed',
      'the run ends',
    );
    const [page, second] = await Promise.all([
      open(browser, `${gateway.url}/runs/${run}`),
      open(browser, `${gateway.url}/runs/${run}`),
    ]);
    await Promise.all([connection(page, 'ended'), connection(second, 'ended')]);
    expect(calls().length).toBe(2);

    // From the end, with a node that is done again.
    await hand.choose(page, /^South shore/);
    await hand.press(page, '[data-command=fork]');
    const dialog = page.getByRole('dialog', { name: 'Fork this run' });
    await dialog.getByText('A new run shares the log of this one up to event').waitFor();
    await page.locator('#fork-name:focus').waitFor();
    await page.keyboard.type('With seals');
    await hand.tick(dialog.getByRole('radio', { name: 'Do it again' }));
    await hand.reach(dialog.getByLabel('Guidance'));
    await page.keyboard.type(SEALS);
    expect(await confirm(page, hand)).toMatch(
      /Re-runs 2 nodes, about 3 calls \(1 plan, 1 execute, 1 aggregate\).*; reuses 1\./,
    );
    const fork = await other(page, run);
    await inGraph(page);
    expect(calls().length).toBe(3);
    expect(calls()[2]).toContain(SEALS);
    await treeItem(page, /^South shore, Completed, executor, reopened/).waitFor();
    await treeItem(page, /^North shore, Completed, executor$/).waitFor();

    // Each leads to the other one.
    await details(page);
    const origin = page.getByTestId('fork-of');
    await origin.getByRole('link', { name: objective }).waitFor();
    await origin.getByText(`after event ${ended.seq}`).waitFor();
    await origin.getByText(SEALS).waitFor();
    // Whoever watches the run sees that it was forked.
    await second
      .getByTestId('command-notice')
      .filter({ hasText: `forked by a user after event ${ended.seq}` })
      .waitFor();
    await hand.press(page, `[data-testid=fork-of] a[href^="/compare"]`);
    await page.waitForURL(`**/compare?a=${run}&b=${fork}`);
    await page
      .getByTestId('compare-counts')
      .getByText('1 node the same, 2 changed, 0 only in A, 0 only in B.')
      .waitFor();
    await page.goBack();
    await origin.waitFor();
    await hand.press(page, `[data-testid=fork-of] a[href^="/runs/${run}"]`);
    await page.waitForURL(`**/runs/${run}?seq=${ended.seq}`);
    await details(page);
    await page.getByTestId('forks').getByRole('link', { name: 'With seals', exact: true }).waitFor();
    await hand.press(page, `[data-testid=forks] a[href="/runs/${fork}"]`);
    await details(page);
    await page.getByTestId('fork-of').waitFor();
    await page.goBack();

    // A retry of a run that has ended.
    await page.goto(`${gateway.url}/runs/${run}?view=graph`);
    await connection(page, 'ended');
    await hand.choose(page, /^North shore/);
    await hand.press(page, '[data-testid=node-commands] [data-command=retry]');
    await page.getByRole('dialog').getByText('so a fork of it does that').waitFor();
    await page.locator('#guidance:focus').waitFor();
    await page.keyboard.type('Begin at the pier.');
    expect(await confirm(page, hand)).toMatch(/Re-runs 2 nodes/);
    const retried = await other(page, run, fork);
    await inGraph(page);
    await treeItem(page, /^North shore, Completed, executor, reopened/).waitFor();
    expect(calls().length).toBe(4);
    expect(calls()[3]).toContain('Begin at the pier.');

    // At a moment in its life: calls that were in flight then are made again.
    const seq = await bothAtWork(run);
    await page.goto(`${gateway.url}/runs/${run}?seq=${seq}`);
    await treeItem(page, /^South shore, Executing/).waitFor();
    await hand.press(page, '[data-command=fork]');
    await page.getByRole('dialog').getByText(`up to event ${seq},`).waitFor();
    await confirm(page, hand);
    const early = await other(page, run, fork, retried);
    await inGraph(page);
    await treeItem(page, /^South shore, Completed, executor$/).waitFor();
    expect(calls().length).toBe(6);

    // With a step more in a plan that is done.
    await page.goto(`${gateway.url}/runs/${run}?view=graph`);
    await connection(page, 'ended');
    await hand.choose(page, /^Walk the island/);
    await hand.press(page, '[data-testid=node-commands] [data-command=plan]');
    const more = page.getByRole('dialog', { name: 'Fork this run' });
    await hand.press(page, 'dialog section [data-add]');
    await hand.reach(more.getByLabel('Title of step 3 of band 1'));
    await page.keyboard.type('South shore again');
    expect(await confirm(page, hand)).toMatch(
      /about 3 calls \(1 plan, 1 execute, 1 aggregate\).*; reuses 2\. Shares the log up to event/,
    );
    const planned = await other(page, run, fork, retried, early);
    await inGraph(page);
    await treeItem(page, /^South shore again, Completed, executor$/).waitFor();
    await treeItem(page, /^North shore, Completed, executor$/).waitFor();
    expect(calls().length).toBe(7);

    // The list has all forks of the run, and the run is what it was.
    await details(page);
    await page.getByTestId('fork-of').getByRole('link', { name: objective }).click();
    await details(page);
    await hand.press(page, `a[href="/runs?parent=${run}"]`);
    const rows = page.locator('[data-run-id]');
    await until(
      () =>
        rows.evaluateAll((all) =>
          all
            .map((row) => row.getAttribute('data-run-id'))
            .sort()
            .join(),
        ),
      (ids) => ids === [fork, retried, early, planned].sort().join(),
      'the forks are listed',
    );
    expect(await gateway.graph(run)).toEqual(ended);
    expect(await second.getByTestId('seq').getAttribute('data-seq')).toBe(String(ended.seq));
    await treeItem(second, /^South shore, Completed, executor$/).waitFor();
    await details(second);
    await until(
      () => second.getByTestId('forks').getByRole('listitem').count(),
      (n) => n === 4,
      'all forks',
    );
    expect(await second.getByTestId('fork-of').count()).toBe(0);
    await close(page);
    await close(second);
  });
});
