// Accessibility, against a real gateway: contrast and names as axe-core computes them in the browser, the tree for
// assistive technology, keyboard use, narrow pages.

import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { violations } from './axe';
import { launch } from './browser';
import { Gateway, type GraphJson } from './gateway';
import { chooseStrategy, close, connection, open, openContext, openOptions, treeItem, until } from './page';

const gateway = new Gateway();
let browser: Browser;
let notes: string;
/** A run with a failure, tools and documents. */
let done: string;
/** A run with citations of two levels. */
let cited: string;
let graph: GraphJson;

beforeAll(async () => {
  [browser] = await Promise.all([launch(), gateway.start()]);
  notes = await mkdtemp(join(tmpdir(), 'tree-agent-notes-'));
  await mkdir(join(notes, 'moon'));
  await writeFile(join(notes, 'tides.md'), '# Tides\n\nTides follow the moon.\n');
  await writeFile(join(notes, 'moon', 'dark.md'), '# Dark\n\nThe moon has no light of its own.\n');
  await writeFile(
    join(notes, 'notes.md'),
    '# Notes\n\nIt is dark.[^1] Tides come.[^2]\n\n[^1]: Somebody said so.\n[^2]: 0190a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b "Tides come."\n',
  );
  await gateway.cli('import', notes, '--project', 'Coast');
  cited = await gateway.run(
    'Cite the moon',
    'scripted:fanout=2,depth=1,artifacts=document,result_bytes=10,cite=4',
    '--project',
    'Coast',
  );
  await until(
    () => gateway.graph(cited),
    (g) => g.status === 'completed',
    'it ends',
    60_000,
  );
  done = await gateway.run(
    'Grow and lose a leaf',
    'scripted:fanout=3,depth=2,tools=1,artifacts=document,fail=rejected,fail_titles=s1.s0',
  );
  graph = await until(
    () => gateway.graph(done),
    (g) => g.status === 'completed',
    'the run ends',
    60_000,
  );
});
afterAll(async () => {
  await browser?.close();
  await gateway.stop();
  await rm(notes, { recursive: true, force: true });
});

const THEMES: [string, BrowserContextOptions][] = [
  ['light', { colorScheme: 'light', reducedMotion: 'reduce' }],
  ['dark', { colorScheme: 'dark', reducedMotion: 'reduce' }],
];

/** Waits for the dialog of a command; `form` for one that is incomplete. */
const previewed = (page: Page, name: string, phase = 'ready'): Promise<void> =>
  page.getByRole('dialog', { name }).locator(`[data-testid=preview][data-phase=${phase}]`).waitFor();

/** Closes the dialog. Until it is gone, keys are its own. */
const dismiss = async (page: Page): Promise<void> => {
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
};

describe.each(THEMES)('WCAG AA in %s', (_, options) => {
  it('holds for lists and forms', async () => {
    const page = await open(browser, `${gateway.url}/runs`, options);
    await page.locator(`[data-run-id="${done}"]`).waitFor();
    const found = await violations(page, 'list');
    await page.getByRole('searchbox').fill('nothing has this');
    await page.getByText('No matching runs').waitFor();
    found.push(...(await violations(page, 'nothing found')));
    await page.goto(`${gateway.url}/runs?new=1`);
    await openContext(page);
    await page.getByRole('checkbox').first().waitFor();
    found.push(...(await violations(page, 'context')));
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await openOptions(page);
    await page.getByLabel('Depth').fill('99');
    await page.getByText('whole number from 0 to 64').waitFor();
    found.push(...(await violations(page, 'new run')));
    await chooseStrategy(page, 'Search');
    await page.getByText('More', { exact: true }).click();
    await page.getByLabel('Levels').fill('99');
    await page.getByText('whole number from 1 to 64').waitFor();
    found.push(...(await violations(page, 'new search')));
    await page.goto(`${gateway.url}/runs/nonsense`);
    await page.getByText('Run not found').waitFor();
    found.push(...(await violations(page, 'no such run')));
    expect(found).toEqual([]);
    await close(page);
  });

  it('holds for projects: list, folders, a document, a search, the question before deleting', async () => {
    const page = await open(browser, `${gateway.url}/projects`, options);
    await page.getByRole('link', { name: 'Coast' }).waitFor();
    const found = await violations(page, 'projects');
    await page.getByRole('link', { name: 'Coast' }).click();
    await treeItem(page, /^moon, folder/).waitFor();
    found.push(...(await violations(page, 'folders')));
    await treeItem(page, /^tides\.md/).click();
    await page.getByText('Tides follow the moon.').waitFor();
    found.push(...(await violations(page, 'a document')));
    await page.getByRole('button', { name: 'More about this document' }).click();
    await page.getByRole('button', { name: 'Delete…' }).click();
    await page.getByRole('dialog', { name: 'Delete this document?' }).waitFor();
    found.push(...(await violations(page, 'delete a document')));
    await page.keyboard.press('Escape');
    await page.getByRole('searchbox').fill('moon');
    await page.locator('mark').first().waitFor();
    found.push(...(await violations(page, 'documents found')));
    await page.setViewportSize({ width: 360, height: 740 });
    await page.getByRole('link', { name: 'All documents' }).waitFor();
    found.push(...(await violations(page, 'a narrow document')));
    await page.getByRole('link', { name: 'All documents' }).click();
    await page.locator('mark').first().waitFor();
    found.push(...(await violations(page, 'narrow documents')));
    expect(found).toEqual([]);
    await close(page);
  });

  it('holds for citations: list, chain, source, marked text, footnotes', async () => {
    const page = await open(browser, `${gateway.url}/runs/${cited}?view=graph&tab=result`, options);
    await connection(page, 'ended');
    await treeItem(page, 'Cite the moon').click();
    const pill = page.getByRole('button', { name: / found, / });
    await pill.click();
    await page.getByRole('button', { name: 'Show the claim that it rests on' }).first().click();
    await page.getByRole('list', { name: 'Claims that it rests on' }).locator('[data-verdict]').first().waitFor();
    const found = await violations(page, 'citations');
    await page.getByRole('button', { name: 'Unverified only' }).click();
    found.push(...(await violations(page, 'unverified citations')));
    await page.getByTestId('citations').getByRole('link').first().click();
    await page.getByText('This document does not contain the quoted words.').waitFor();
    found.push(...(await violations(page, 'a source without the quote')));
    await page.getByRole('button', { name: 'Back', exact: true }).click();
    await page.getByRole('button', { name: 'Unverified only' }).click();
    await page.getByTestId('citations').getByRole('link').first().click();
    await page.getByTestId('source-panel').locator('mark').first().waitFor();
    found.push(...(await violations(page, 'a source at the passage')));
    await page.getByRole('button', { name: 'Back', exact: true }).click();
    await page.getByRole('button', { name: 'Read', exact: true }).click();
    await page.locator('.md mark').first().waitFor();
    found.push(...(await violations(page, 'marked claims')));
    await page.goto(`${gateway.url}/projects`);
    await page.getByRole('link', { name: 'Coast' }).click();
    await treeItem(page, /^notes\.md/).click();
    await page.getByText('(no such document)').waitFor();
    found.push(...(await violations(page, 'footnotes')));
    expect(found).toEqual([]);
    await close(page);
  });

  it('holds for a run: overview, every tab of a node, documents, events, filters, the past', async () => {
    const page = await open(browser, `${gateway.url}/runs/${done}`, options);
    await connection(page, 'ended');
    await page.locator('[data-card]').first().waitFor();
    const found = await violations(page, 'overview');
    await treeItem(page, 's1.s0,').click();
    for (const tab of ['Overview', 'Scratchpad', 'Plan', 'Timeline', 'Tools', 'Result']) {
      await page.getByRole('tab', { name: tab }).click();
      await page.getByRole('tab', { name: tab, selected: true }).waitFor();
      found.push(...(await violations(page, tab)));
    }
    await page.keyboard.press('f');
    await page.getByTestId('match-count').waitFor();
    found.push(...(await violations(page, 'filtered')));
    // A colour that is too pale is found, also on the cards.
    await page.evaluate(() => document.styleSheets[0]!.insertRule('.node.faded { opacity: 0.4; }'));
    expect((await violations(page, 'too pale')).join()).toContain('color-contrast');
    await page.evaluate(() => document.styleSheets[0]!.deleteRule(0));
    await page.keyboard.press('d');
    await page
      .getByTestId('document-tree')
      .getByRole('treeitem', { name: /Scratchpad/ })
      .first()
      .click();
    await page
      .getByTestId('document-panel')
      .getByText(/written/)
      .first()
      .waitFor();
    found.push(...(await violations(page, 'documents')));
    await page.keyboard.press('d');
    await page.keyboard.press('e');
    await page.getByTestId('event-rows').locator('.event').last().click();
    found.push(...(await violations(page, 'events')));
    await page.keyboard.press('[');
    await page.getByTestId('moment').waitFor();
    found.push(...(await violations(page, 'the past')));
    await page.getByRole('button', { name: 'More about this run' }).click();
    found.push(...(await violations(page, 'menu')));
    await page.getByRole('button', { name: 'Change context' }).click();
    found.push(...(await violations(page, 'change context')));
    await page.keyboard.press('Escape');
    await page.keyboard.press('?');
    await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor();
    found.push(...(await violations(page, 'help')));
    await page.goto(`${gateway.url}/runs/${done}?view=answer`);
    await page.getByTestId('answer-facts').waitFor();
    found.push(...(await violations(page, 'answer')));
    await page.setViewportSize({ width: 360, height: 740 });
    found.push(...(await violations(page, 'narrow answer')));
    expect(found).toEqual([]);
    await close(page);
  }, 120_000);

  it('holds for a comparison, at 360 px, too', async () => {
    const page = await open(browser, `${gateway.url}/compare?a=${done}&b=${done}&a_seq=60`, options);
    await page.getByRole('tree', { name: 'Nodes compared' }).getByRole('treeitem').first().click();
    await page.getByTestId('chosen').waitFor();
    await page.getByTestId('graph-b').locator('[data-card]').first().waitFor();
    const found = await violations(page, 'comparison');
    await page.setViewportSize({ width: 360, height: 740 });
    found.push(...(await violations(page, 'narrow comparison')));
    expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
    await page.goto(`${gateway.url}/runs`);
    await page.locator('[data-run-id]').first().getByRole('checkbox').check();
    await page
      .getByRole('button', { name: /^Actions/ })
      .first()
      .click();
    await page.getByText('1 selected').waitFor();
    found.push(...(await violations(page, 'choosing')));
    expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
    expect(found).toEqual([]);
    await close(page);
  });

  it('holds for an active run, and at 360 px', async () => {
    const run = await gateway.run('Be at work', 'scripted:fanout=3,depth=1,latency_ms=20000');
    const page = await open(browser, `${gateway.url}/runs/${run}`, options);
    await connection(page, 'live');
    await page.locator('[data-card]').first().waitFor();
    const found = await violations(page, 'at work');
    // With the first step there is a plan to edit.
    await page.locator('[data-card]').nth(1).waitFor();
    // The dialogs of the commands, with their previews.
    await page.keyboard.press('k');
    await previewed(page, 'Fork this run');
    found.push(...(await violations(page, 'fork')));
    await dismiss(page);
    await treeItem(page, /^Be at work/).click();
    await page.keyboard.press('m');
    await previewed(page, 'Edit the plan', 'form');
    await page.getByRole('dialog').getByRole('button', { name: 'Add band' }).click();
    await page.getByRole('dialog').getByText('Reason, criteria').last().click();
    found.push(...(await violations(page, 'edit plan')));
    await dismiss(page);
    await page.keyboard.press('g');
    await previewed(page, 'Guide this node', 'form');
    found.push(...(await violations(page, 'guide')));
    await dismiss(page);
    await page.keyboard.press('p');
    await page.getByTestId('toast').getByText('The run is paused.').waitFor();
    await page.getByRole('banner').locator('.pill', { hasText: 'Paused' }).waitFor();
    found.push(...(await violations(page, 'paused')));
    await page.getByTestId('run-commands').getByRole('button', { name: 'Budget' }).click();
    await page.getByRole('dialog').getByLabel('Nodes').fill('0');
    await page.getByText('whole number from 1').waitFor();
    found.push(...(await violations(page, 'budget')));
    await dismiss(page);
    await page.getByTestId('run-commands').getByRole('button', { name: 'Stop' }).click();
    await previewed(page, 'Stop this run?');
    found.push(...(await violations(page, 'stop')));
    await page.getByRole('radio', { name: /^Discard/ }).check();
    await page.getByRole('button', { name: 'Stop run and discard' }).and(page.locator(':enabled')).click();
    await connection(page, 'ended');
    found.push(...(await violations(page, 'cancelled')));
    await page.setViewportSize({ width: 360, height: 740 });
    await page.goto(`${gateway.url}/runs/${done}?view=graph`);
    await connection(page, 'ended');
    // A phone begins with the outline.
    found.push(...(await violations(page, 'narrow tree')));
    await page.getByRole('button', { name: 'List', exact: true }).click();
    found.push(...(await violations(page, 'narrow graph')));
    await page.getByRole('button', { name: 'List', exact: true }).click();
    await treeItem(page, 's1.s0,').click();
    await page.getByTestId('node-panel').waitFor();
    found.push(...(await violations(page, 'narrow node')));
    expect(found).toEqual([]);
    await close(page);
  }, 120_000);
});

describe('the tree for assistive technology', () => {
  it('has one item per node, with its status, level, position and state', async () => {
    const page = await open(browser, `${gateway.url}/runs/${done}`);
    await connection(page, 'ended');
    const tree = page.getByRole('tree', { name: 'Nodes of the run' });
    await tree.waitFor();
    const items = await tree
      .getByRole('treeitem')
      .evaluateAll((all) =>
        all.map((e) => ({
          id: e.getAttribute('data-node-id'),
          status: e.getAttribute('data-status'),
          level: Number(e.getAttribute('aria-level')),
          place: Number(e.getAttribute('aria-posinset')),
          siblings: Number(e.getAttribute('aria-setsize')),
          expanded: e.getAttribute('aria-expanded'),
          tab: (e as HTMLElement).tabIndex,
        })),
      );
    const siblings = (of: GraphJson['nodes'][number]) =>
      graph.nodes.filter((n) => (n.parentId ?? null) === (of.parentId ?? null));
    expect(new Map(items.map(({ tab: _, ...item }) => [item.id, item]))).toEqual(
      new Map(
        graph.nodes.map((n) => [
          n.id,
          {
            id: n.id,
            status: n.status,
            level: n.depth + 1,
            place: siblings(n).indexOf(n) + 1,
            siblings: siblings(n).length,
            expanded: graph.nodes.some((c) => c.parentId === n.id) ? 'true' : null,
          },
        ]),
      ),
    );
    expect(items.filter((i) => i.tab === 0)).toHaveLength(1);
    await close(page);
  });
});

/** Presses Tab until the focused element matches. */
async function tabTo(page: Page, fits: string): Promise<void> {
  for (let i = 0; i < 80; i++) {
    await page.keyboard.press('Tab');
    if (await page.evaluate((selector) => document.activeElement?.matches(selector), fits)) return;
  }
  throw new Error(`Tab does not lead to ${fits}`);
}

describe('without a mouse', () => {
  it('starts a run, watches it, opens a node, moves through time, and stops', async () => {
    const page = await open(browser, `${gateway.url}/runs`);
    await page.locator('[data-run-id]').first().waitFor();
    await page.keyboard.press('n');
    await page.locator('#objective:focus').waitFor();
    await page.keyboard.type('Started by keyboard');
    await tabTo(page, 'form summary');
    await page.keyboard.press('Enter');
    await tabTo(page, '#model');
    await page.keyboard.type('scripted:fanout=2,depth=1,latency_ms=30000');
    await page.keyboard.press('Control+Enter');
    await page.waitForURL('**/runs/*');
    await connection(page, 'live');
    await treeItem(page, /^Started by keyboard/).waitFor();
    await page.keyboard.press('t');
    await page.locator('[role=treeitem]:focus').waitFor();
    await page.keyboard.press('Enter');
    await page.getByTestId('node-panel').waitFor();
    await tabTo(page, '[role=tab]');
    await page.keyboard.press('ArrowRight');
    await page.getByRole('tab', { name: 'Scratchpad', selected: true }).waitFor();
    await page.keyboard.press('[');
    await page.getByTestId('moment').waitFor();
    await page.keyboard.press('l');
    await page.getByTestId('moment').waitFor({ state: 'detached' });
    await page.keyboard.press('e');
    await page.getByTestId('event-rows').waitFor();
    // The event log and its rows too.
    await tabTo(page, '.event');
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Go to node' }).waitFor();
    await tabTo(page, '.danger');
    await page.keyboard.press('Enter');
    await previewed(page, 'Stop this run?');
    await tabTo(page, 'dialog input[type=radio]');
    await page.keyboard.press('ArrowDown');
    await page.getByRole('button', { name: 'Stop run and discard' }).and(page.locator(':enabled')).waitFor();
    await tabTo(page, 'dialog .danger');
    await page.keyboard.press('Enter');
    await page.locator('header').getByText('Cancelled', { exact: true }).waitFor();
    await connection(page, 'ended');
    await tabTo(page, 'a[href="/runs"]');
    await page.keyboard.press('Enter');
    await page.waitForURL('**/runs');
    const row = page.locator('[data-run-id]').filter({ hasText: 'Started by keyboard' });
    await until(
      () => row.getAttribute('data-status'),
      (s) => s === 'cancelled',
      'the list says it too',
    );
    await close(page);
  });
});
