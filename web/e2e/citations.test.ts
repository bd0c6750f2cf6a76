// Citations: from a claim down its chain to the marked words of the source, against a real gateway.

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { launch } from './browser';
import { QUICK } from './quick';
import { Gateway, type GraphJson } from './gateway';
import { close, connection, open, until } from './page';

const gateway = new Gateway();
let browser: Browser;
let notes: string;
/** Two levels of nodes that cite, the lower ones a document of the project. */
let done: string;
let graph: GraphJson;

/** The script cites the first line with more than 20 bytes: here a row of a table, after characters of every length. */
const ROW = '| Bay of Fundy 🌊 | *sixteen* `metres`, plus profond que 潮 |';
const tides = (row: string): string =>
  `# Ebbe 🌊🏽\n\n| place | range |\n|---|---|\n${row}\n| Jade | four |\n\nThe end.\n`;

async function write(row: string): Promise<void> {
  await writeFile(join(notes, 'tides.md'), tides(row));
  await gateway.cli('import', notes, '--project', 'Coast');
}

const ended = async (run: string): Promise<GraphJson> =>
  until(
    () => gateway.graph(run),
    (g) => g.status === 'completed',
    'the run ends',
    60_000,
  );

beforeAll(async () => {
  notes = await mkdtemp(join(tmpdir(), 'tree-agent-notes-'));
  [browser] = await Promise.all([launch(), gateway.start()]);
  await write(ROW);
  // A first line with few characters lets the nodes above cite claims.
  done = await gateway.run(
    'Cite it',
    'scripted:fanout=2,depth=2,artifacts=document,result_bytes=10,cite=4',
    '--project',
    'Coast',
  );
  graph = await ended(done);
});
afterAll(async () => {
  await browser?.close();
  await gateway.stop();
  await rm(notes, { recursive: true, force: true });
});

const idOf = (title: string): string => graph.nodes.find((node) => node.title === title)!.id;
const url = (run: string, params: Record<string, string>): string =>
  `${gateway.url}/runs/${run}?${new URLSearchParams({ tab: 'result', ...params }).toString()}`;
const list = (page: Page): Locator =>
  page.getByTestId('citations').getByRole('list', { name: 'Citations', exact: true });
const claims = (page: Page): Promise<(string | null)[]> =>
  list(page)
    .locator(':scope > li > [data-verdict]')
    .evaluateAll((all) => all.map((one) => one.getAttribute('data-verdict')));
const pill = (page: Page): Locator => page.getByRole('button', { name: / found, / });
/** What is read of that row where the source is rendered. */
const RENDERED = 'Bay of Fundy 🌊sixteen metres, plus profond que 潮';
const SOURCE_MARK = '[data-testid=source-panel] mark';
/** The words that are marked in the open source, and whether the first of them are in sight. */
const marked = (page: Page, marks = SOURCE_MARK): Promise<{ text: string; seen: boolean; focused: boolean }> =>
  page.locator(marks).evaluateAll((all) => {
    const first = all[0]!;
    const [at, panel] = [
      first.getBoundingClientRect(),
      first.closest('[role=region][aria-label^=Text]')!.getBoundingClientRect(),
    ];
    return {
      text: all.map((one) => one.textContent).join(''),
      seen: at.top >= panel.top && at.bottom <= panel.bottom,
      focused: document.activeElement === first,
    };
  });
/** When the source has been read, its first marked words have the focus. */
const found = (page: Page): Promise<void> => page.locator(SOURCE_MARK).first().and(page.locator(':focus')).waitFor();

describe('the citations of an artifact', () => {
  it('say what was found, in words, and can be limited to what was not', async () => {
    const page = await open(browser, url(done, { node: idOf('s0.s0') }));
    await connection(page, 'ended');
    await pill(page).filter({ hasText: '2 found, 2 not found, 0 not checked' }).click();
    await until(
      () => claims(page),
      (all) => all.length === 4,
      'all are there',
    );
    expect(await claims(page)).toEqual([
      'found in the source',
      'not found in the source',
      'found in the source',
      'not found in the source',
    ]);
    const second = list(page).locator(':scope > li').nth(1);
    await second.getByText('Claim 2 of Result of s0.s0.').waitFor();
    await second.getByText(`not 2: ${ROW}`).waitFor();
    await page.getByRole('button', { name: 'Unverified only' }).click();
    await until(
      () => claims(page),
      (all) => all.length === 2,
      'the others are hidden',
    );
    await page.getByText('2 of 4 shown').waitFor();
    await page.getByRole('button', { name: 'Unverified only' }).click();
    await until(
      () => claims(page),
      (all) => all.length === 4,
      'all are back',
    );
    await pill(page).click();
    await list(page).waitFor({ state: 'detached' });
    await close(page);
  });

  it('lead down the chain to the exact words of the source, and back, by keyboard', QUICK, async () => {
    const page = await open(browser, url(done, { node: idOf('Cite it') }));
    await connection(page, 'ended');
    await pill(page).focus();
    await page.keyboard.press('Enter');
    const first = list(page).locator(':scope > li').first();
    await first.getByRole('button', { name: 'Show the claim that it rests on' }).focus();
    await page.keyboard.press('Enter');
    // The chain opens down to the source by itself.
    await first.getByText('Claim 1 of Result of s0.', { exact: true }).first().waitFor();
    await first.getByText('Claim 1 of Result of s0.s0.', { exact: true }).first().waitFor();
    const source = first.getByRole('link', { name: 'Ebbe 🌊🏽' });
    await source.focus();
    await page.keyboard.press('Enter');
    await page.getByText('The passage is marked below. It has not changed.').waitFor();
    await page.getByRole('button', { name: 'Back', exact: true }).focus();
    await page.keyboard.press('Enter');
    await source.and(page.locator(':focus')).waitFor();
    await page.keyboard.press('Enter');
    await found(page);
    expect(await marked(page)).toEqual({ text: RENDERED, seen: true, focused: true });
    await page.getByTestId('source-panel').getByText('tides.md').waitFor();
    // A link leads there, too.
    await page.reload();
    await found(page);
    expect(await marked(page)).toEqual({ text: RENDERED, seen: true, focused: true });
    await page.getByRole('link', { name: 'Open in the project' }).click();
    await page.waitForURL('**/projects/**');
    await page.locator('pre mark').waitFor();
    expect(await marked(page, 'pre mark')).toEqual({ text: ROW.slice(2, -2), seen: true, focused: true });
    await page.getByRole('button', { name: 'Plain text' }).click();
    await page.getByRole('cell', { name: 'Bay of Fundy 🌊' }).waitFor();
    await close(page);
  });

  it('keep their place while a source is open', async () => {
    const page = await open(browser, url(done, { node: idOf('s1') }));
    await connection(page, 'ended');
    await pill(page).click();
    const third = list(page).locator(':scope > li').nth(2);
    // An artifact of the run is a source, too.
    await third.getByRole('link', { name: 'Result of s1.s0' }).click();
    await found(page);
    expect((await marked(page)).text).toBe('Claim 1 of Result of s1.s0.');
    await page.getByRole('button', { name: 'Back', exact: true }).click();
    await third.getByRole('link', { name: 'Result of s1.s0' }).and(page.locator(':focus')).waitFor();
    // A quote that is not there is said not to be there.
    await list(page).locator(':scope > li').nth(1).getByRole('link').click();
    await page.getByText('This document does not contain the quoted words.').waitFor();
    expect(await page.locator(SOURCE_MARK).count()).toBe(0);
    await page.getByRole('button', { name: 'Show among the documents' }).click();
    await page.getByTestId('document-panel').waitFor();
    await close(page);
  });

  it('are shown as they were at any moment', async () => {
    const events = (await gateway.cli('events', done, '-o', 'jsonl'))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { seq: number; type: string; nodeId: string });
    const node = idOf('s0.s0');
    const cited = events.find((event) => event.type === 'tree.artifact_cited' && event.nodeId === node)!.seq;
    const page = await open(browser, url(done, { node }));
    await connection(page, 'ended');
    await pill(page).click();
    await until(
      () => claims(page),
      (all) => all.length === 4,
      'all are there',
    );
    const slider = page.getByLabel('Event of the run');
    await slider.fill(String(cited));
    await page.getByText(`As of event ${cited}: 4 of 4 shown`).waitFor();
    await slider.fill(String(cited - 1));
    await pill(page).waitFor({ state: 'detached' });
    expect(await page.getByTestId('citations').count()).toBe(0);
    await page.keyboard.press('l');
    await until(
      () => claims(page),
      (all) => all.length === 4,
      'the present is back',
    );
    await close(page);
  });

  it('are underlined in the text if they are unverified, and nothing moves for it', async () => {
    const page = await open(browser, url(done, { node: idOf('s0.s0') }));
    await connection(page, 'ended');
    let answer = (): void => {};
    const held = new Promise<void>((resolve) => (answer = resolve));
    await page.route('**/treeagent.v1.RunService/ListCitations', async (route) => {
      await held;
      await route.continue();
    });
    await page.getByRole('button', { name: 'Read', exact: true }).click();
    const legend = page.getByTestId('claim-legend');
    await legend.getByText('Statements: 2 with quotes found in their sources, 2 with quotes not found.').waitFor();
    const text = page.locator('.md');
    await text.getByText('Claim 4 of Result of s0.s0.').waitFor();
    const place = () => text.boundingBox();
    const before = await place();
    expect(await text.locator('mark').count()).toBe(0);
    answer();
    await text.locator('mark').first().waitFor();
    expect(await text.locator('mark').allInnerTexts()).toEqual([
      'Claim 2 of Result of s0.s0.',
      'Claim 4 of Result of s0.s0.',
    ]);
    expect(await text.locator('mark').first().getAttribute('title')).toBe('Doubted claim: not found in the source');
    expect(await text.getByText('(doubted claim: not found in the source)').count()).toBe(2);
    expect(await place()).toEqual(before);
    // Among the documents it looks the same.
    await page.getByRole('button', { name: 'Show among the documents' }).click();
    await page.getByTestId('document-panel').locator('mark').nth(1).waitFor();
    await close(page);
  });

  it('say what to do when they cannot be read', async () => {
    const page = await open(browser, url(done, { node: idOf('s0.s0') }));
    await connection(page, 'ended');
    await page.route('**/treeagent.v1.RunService/ListCitations', (route) => route.abort('connectionrefused'));
    await pill(page).click();
    await page.getByRole('alert').getByText('The gateway does not answer').waitFor();
    await page.unroute('**/treeagent.v1.RunService/ListCitations');
    await page.getByRole('button', { name: 'Try again' }).click();
    await until(
      () => claims(page),
      (all) => all.length === 4,
      'they are there',
    );
    await close(page);
  });

  it('come page by page, and fit 360 pixels', async () => {
    const run = await gateway.run('Cite much', 'scripted:depth=0,artifacts=document,cite=128', '--project', 'Coast');
    const node = (await ended(run)).nodes[0]!.id;
    const page = await open(browser, url(run, { node }), { viewport: { width: 360, height: 740 } });
    await pill(page).filter({ hasText: '64 found' }).click();
    await until(
      () => claims(page),
      (all) => all.length === 100,
      'the first page is there',
    );
    await page.getByRole('button', { name: 'Show more citations' }).click();
    await until(
      () => claims(page),
      (all) => all.length === 128,
      'all are there',
    );
    await page.getByRole('button', { name: 'Show more citations' }).waitFor({ state: 'detached' });
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(360);
    await list(page).getByRole('link').first().click();
    await found(page);
    expect((await marked(page)).text).toBe(RENDERED);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(360);
    await page.getByRole('button', { name: 'Back', exact: true }).click();
    await list(page).getByRole('link').first().and(page.locator(':focus')).waitFor();
    await close(page);
  });

  it('say that the source has changed since', async () => {
    const run = await gateway.run(
      'Cite what changes',
      'scripted:depth=0,artifacts=document,cite=1',
      '--project',
      'Coast',
    );
    const node = (await ended(run)).nodes[0]!.id;
    const page = await open(browser, url(run, { node }));
    await connection(page, 'ended');
    await pill(page).filter({ hasText: '1 found, 0 not found, 0 not checked' }).click();
    const source = list(page).getByRole('link');
    try {
      await write(`| A new row | of a few words |\n${ROW}`);
      await source.click();
      await page
        .getByText('The source has changed since. The quoted words stand elsewhere now, and are marked below.')
        .waitFor();
      await found(page);
      expect((await marked(page)).text).toBe(RENDERED);
      await page.getByRole('button', { name: 'Back', exact: true }).click();
      await write(ROW.replace('sixteen', 'fifteen'));
      await source.click();
      await page.getByText('The source has changed since. The passage is not there any more.').waitFor();
      expect(await page.locator(SOURCE_MARK).count()).toBe(0);
    } finally {
      await write(ROW);
    }
    await close(page);
  });
});
