// The page of a run, against a real gateway.

import { eventWords } from '../src/lib/words';
import { graphOf } from '../tests/fixtures';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { launch } from './browser';
import { QUICK } from './quick';
import { Gateway, type GraphJson } from './gateway';
import { close, connection, copyAs, drawn, open, shownSeq, treeItem, treeOf, until } from './page';

const gateway = new Gateway();
let browser: Browser;
/** A run that has ended with a failure and a document. */
let done: string;

/** The whole graph as the page shows it, and as the server has it at `seq`. */
async function whole(page: Page, run: string, seq: number): Promise<[unknown, unknown]> {
  const copied = await copyAs(page, 'JSON');
  return [JSON.parse(copied), graphOf(await gateway.cli('graph', run, '--format', 'json', '--at', String(seq)))];
}

const graphAt = (run: string, seq?: number): Promise<GraphJson> => gateway.graph(run, seq);
const statuses = (graph: GraphJson): Record<string, string> =>
  Object.fromEntries(graph.nodes.map((n) => [n.id, n.status]));
const ended = (page: Page): Promise<void> => connection(page, 'ended');

beforeAll(async () => {
  [browser] = await Promise.all([launch(), gateway.start()]);
  done = await gateway.run(
    'Grow and lose a leaf',
    'scripted:fanout=3,depth=2,tools=1,artifacts=document,fail=rejected,fail_titles=s1.s0',
  );
  await until(
    () => graphAt(done),
    (g) => g.status === 'completed',
    'the run ends',
    60_000,
  );
});
afterAll(async () => {
  await browser?.close();
  await gateway.stop();
});

describe('the graph', () => {
  it('zooms by key, shows the whole tree, folds, and restores all of it on a reload', async () => {
    const page = await open(browser, `${gateway.url}/runs/${done}`);
    await ended(page);
    await page.keyboard.press('0');
    await page.keyboard.press('+');
    await page.keyboard.press('+');
    await treeItem(page, /^s1,/).first().click();
    await page.waitForURL(/node=/);
    await page.keyboard.press('t');
    await page.keyboard.press('ArrowLeft');
    const graph = page.getByTestId('graph');
    expect(await treeItem(page, /^s1,/).first().getAttribute('aria-expanded')).toBe('false');
    await page.getByRole('tree').getByText('1 failed', { exact: true }).waitFor();
    const box = async () => page.locator('[data-card][class*=selected]').boundingBox();
    const [k, place] = [await graph.getAttribute('data-k'), await box()];
    await page.reload();
    await ended(page);
    await page.locator('[data-card]').first().waitFor();
    expect(await graph.getAttribute('data-k')).toBe(k);
    expect((await box())!.y).toBeCloseTo(place!.y, 0);
    expect((await box())!.x).toBeCloseTo(place!.x, 0);
    expect(await treeItem(page, /^s1,/).first().getAttribute('aria-expanded')).toBe('false');
    expect(await treeItem(page, /^s1,/).first().getAttribute('aria-selected')).toBe('true');
    await close(page);
  });
});

describe('a step that is a search', () => {
  it('says so in the list, on its card and in the plan', async () => {
    const model = 'scripted:fanout=2,depth=2,search_steps=1,search_depth=2,search_nodes=9';
    const run = await gateway.run('Explore the tides', model, '--max-depth', '2');
    await until(
      () => graphAt(run),
      (g) => g.status === 'completed',
      'the run ends',
      60_000,
    );
    const page = await open(browser, `${gateway.url}/runs/${run}`);
    await ended(page);
    await treeItem(page, /^s0, .*, search$/).click();
    await page.locator('[data-card][class*=selected]').getByText('search', { exact: true }).waitFor();
    await treeItem(page, /^Explore the tides,/).click();
    await page.getByRole('tab', { name: 'Plan' }).click();
    await page.getByTestId('step-search').filter({ hasText: 'a search of at most 9 topics on 2 levels' }).waitFor();
    expect(await page.getByTestId('step-search').count()).toBe(1);
    await close(page);
  });
});

describe('the node panel', () => {
  it('shows everything about a node', QUICK, async () => {
    const page = await open(browser, `${gateway.url}/runs/${done}`);
    await ended(page);
    await treeItem(page, 's0.s0,').click();
    const panel = page.getByTestId('node-panel');
    await panel.getByText('Parent and children', { exact: true }).waitFor();
    for (const text of ['Completed', 'Executor', 'Step 1', 'Depth 2'])
      await panel.getByText(text, { exact: true }).first().waitFor();
    await panel.getByText('TOOL: list_documents [OK]').waitFor();
    const id = (await panel.getAttribute('data-panel-node'))!;
    const own = (await gateway.cli('events', done, '--node', id, '-o', 'jsonl'))
      .trim()
      .split('\n')
      .map((l) => JSON.parse(l) as { type: string; payload: Record<string, unknown> });
    await page.getByRole('tab', { name: 'Timeline' }).click();
    await panel.getByText('Node completed').waitFor();
    expect(await panel.locator('ol > li b').allInnerTexts()).toEqual(own.map((e) => eventWords(e.type)));
    await panel.getByRole('button', { name: 'Raw event' }).last().click();
    await panel.getByLabel('The event as JSON').getByText('nodeCompleted').waitFor();
    await page.getByRole('tab', { name: 'Timeline' }).focus();
    await page.keyboard.press('ArrowRight');
    const [call, ...rest] = await panel.getByRole('listitem').all();
    await call!.getByText('list_documents', { exact: true }).waitFor();
    await call!.getByLabel('Arguments').waitFor();
    await call!.getByText('OK', { exact: true }).waitFor();
    await call!.getByText(String(own.find((e) => e.type === 'tree.tool_call_result')!.payload.summary)).waitFor();
    expect(rest).toHaveLength(own.filter((e) => e.type === 'tree.tool_call_requested').length - 1);
    await page.getByRole('tab', { name: 'Result' }).click();
    await panel.getByText('Success criteria met').waitFor();
    await panel.getByText('Primary', { exact: true }).waitFor();
    await panel.getByText('document', { exact: true }).waitFor();
    await panel.getByRole('button', { name: 'Read' }).first().click();
    await panel.getByText(/written/).waitFor();
    await page.keyboard.press('s');
    await page.getByTestId('scratchpad').getByText('scripted: executed').waitFor();
    await page.keyboard.press('s');
    await panel.getByText('Parent and children', { exact: true }).waitFor();
    await treeItem(page, 'Grow and lose a leaf').click();
    await page.getByRole('tab', { name: 'Plan' }).click();
    await panel.getByText('Version 1').waitFor();
    const band = panel.locator('.band');
    expect(await band.count()).toBe(1);
    for (const text of ['B1', 'in parallel']) await band.getByText(text, { exact: true }).waitFor();
    expect(await band.locator('.step .pill').allInnerTexts()).toEqual(['Completed', 'Completed', 'Completed']);
    await panel.getByRole('button', { name: 's1' }).click();
    await panel.getByRole('heading', { name: 's1' }).waitFor();
    await close(page);
  });

  it('shows the scratchpad as it is written', async () => {
    const run = await gateway.run('Write as you go', 'scripted:fanout=2,depth=1,latency_ms=1500');
    const page = await open(browser, `${gateway.url}/runs/${run}?tab=scratchpad`);
    await treeItem(page, 'Write as you go').click();
    const pad = page.getByTestId('scratchpad');
    await pad.getByText('scripted: planned').waitFor();
    expect(await pad.getByText('scripted: aggregated').count()).toBe(0);
    await pad.getByText('scripted: aggregated').waitFor();
    await close(page);
  });

  it('shows why a node failed, and that the run is partial', async () => {
    const page = await open(browser, `${gateway.url}/runs/${done}`);
    await ended(page);
    await page.locator('header').getByText('Partial').waitFor();
    await page.keyboard.press('f');
    await page.getByTestId('match-count').filter({ hasText: '1 match' }).waitFor();
    await page.keyboard.press('n');
    await page.getByTestId('node-panel').getByRole('heading', { name: 's1.s0' }).waitFor();
    await page.getByTestId('node-panel').getByRole('alert').waitFor();
    expect(page.url()).toContain('show=failed');
    await page.reload();
    await page.getByTestId('match-count').filter({ hasText: '1 match' }).waitFor();
    await page.getByTestId('node-panel').getByRole('heading', { name: 's1.s0' }).waitFor();
    await close(page);
  });
});

describe('time', () => {
  it('shows at N what the server has at N, by slider, step and replay, and returns to live', QUICK, async () => {
    const page = await open(browser, `${gateway.url}/runs/${done}`);
    await ended(page);
    const head = await shownSeq(page);
    for (const seq of [5, 10, Math.floor(head / 3), Math.floor(head / 2), head - 3]) {
      await page.getByLabel('Event of the run').fill(String(seq));
      await until(
        () => shownSeq(page),
        (s) => s === seq,
        'the slider moves',
      );
      await page.getByRole('heading', { name: 'Loading the past' }).waitFor({ state: 'detached' });
      expect(await treeOf(page)).toEqual(statuses(await graphAt(done, seq)));
      const [shown, served] = await whole(page, done, seq);
      expect(shown).toEqual(served);
    }
    await page.locator('body').click({ position: { x: 2, y: 2 } });
    await page.keyboard.press('[');
    await until(
      () => shownSeq(page),
      (s) => s === head - 4,
      'one step back',
    );
    await page.waitForURL(new RegExp(`seq=${head - 4}`));
    await page.reload();
    await until(
      () => shownSeq(page),
      (s) => s === head - 4,
      'the moment survives a reload',
    );
    await until(
      () => treeOf(page),
      (t) => Object.keys(t).length > 0,
      'the past is loaded',
    );
    expect(await treeOf(page)).toEqual(statuses(await graphAt(done, head - 4)));
    await page.getByLabel('Speed').selectOption('20');
    await page.getByRole('button', { name: 'Play' }).click();
    await page.getByRole('button', { name: 'Play' }).waitFor();
    expect(await shownSeq(page)).toBe(head);
    await page.keyboard.press('l');
    await page.getByTestId('moment').waitFor({ state: 'detached' });
    expect(page.url()).not.toContain('seq=');
    await close(page);
  });

  it('keeps showing the past while the run continues', async () => {
    const run = await gateway.run('Go on meanwhile', 'scripted:fanout=3,depth=1,latency_ms=700');
    const page = await open(browser, `${gateway.url}/runs/${run}`);
    await connection(page, 'live');
    await until(
      () => page.locator('[role=treeitem]').count(),
      (n) => n >= 2,
      'it has begun',
    );
    await page.keyboard.press('[');
    const seq = await shownSeq(page);
    const then = await until(
      () => treeOf(page),
      (t) => Object.keys(t).length > 0,
      'the past is loaded',
    );
    await ended(page);
    expect(await shownSeq(page)).toBe(seq);
    expect(await treeOf(page)).toEqual(then);
    expect(then).toEqual(statuses(await graphAt(run, seq)));
    const [shown, served] = await whole(page, run, seq);
    expect(shown).toEqual(served);
    await page.keyboard.press('l');
    await until(
      () => treeOf(page),
      (t) => Object.values(t).every((s) => s === 'completed'),
      'live again',
    );
    await close(page);
  });
});

describe('the event log', () => {
  it('is filtered by type and by node', async () => {
    const page = await open(browser, `${gateway.url}/runs/${done}?view=time`);
    await ended(page);
    const rows = page.getByTestId('event-rows');
    const count = async (): Promise<number> => Number(await rows.getAttribute('data-count'));
    const head = await shownSeq(page);
    await until(count, (n) => n === head, 'every event is there');
    expect(await rows.locator('.event').count()).toBeLessThan(60);
    await page.getByLabel('Event type').selectOption('tree.node_failed');
    await until(count, (n) => n === 1, 'one node failed');
    await rows.locator('.event').click();
    await page.getByRole('button', { name: 'Go to node' }).click();
    await page.getByTestId('node-panel').getByRole('heading', { name: 's1.s0' }).waitFor();
    await page.keyboard.press('e');
    await page.getByLabel('Event type').selectOption('');
    await page.getByRole('button', { name: 'This node' }).click();
    const own = (
      await gateway.cli('events', done, '--node', (await page.url().match(/node=([^&]+)/))![1]!, '-o', 'jsonl')
    )
      .trim()
      .split('\n').length;
    await until(count, (n) => n === own, 'only its own events');
    await close(page);
  });
});

describe('the time line', () => {
  it('has a bar for each node, says what took longest, and shows a moment', async () => {
    const page = await open(browser, `${gateway.url}/runs/${done}?view=time`);
    await ended(page);
    const graph = await graphAt(done);
    const bars = page.getByTestId('time-line').locator('[data-span]');
    await until(
      () => bars.count(),
      (n) => n === graph.nodes.length,
      'each node has a bar',
    );
    const last = graph.nodes.findLast(({ depth }) => depth === 2)!;
    const bar = page.locator(`[data-span="${last.id}"] .bar`);
    await until(
      () => bar.evaluate((e) => getComputedStyle(e).backgroundImage),
      (image) => image.includes('rgb'),
      'its phases are drawn',
    );
    // Header, strip and picture have one clock.
    const ran = await page.getByTestId('ran').innerText();
    expect(await page.getByTestId('facts').innerText()).toContain(ran);
    expect(await page.getByTestId('critical').innerText()).toMatch(/^\d+(\.\d)? m?s of \d.*: s\d/);
    await bar.click();
    await page.getByTestId('moment').waitFor();
    const past = await page.getByTestId('ran').innerText();
    expect(past).not.toBe(ran);
    expect(await page.getByTestId('facts').innerText()).toContain(past);
    await close(page);
  });

  it('turns no page of somebody who has touched it when the run ends', async () => {
    const run = await gateway.run('End while somebody reads', 'scripted:fanout=2,depth=1,latency_ms=700');
    const page = await open(browser, `${gateway.url}/runs/${run}`);
    await page.locator('[data-card]').first().waitFor();
    await page.getByTestId('graph').hover();
    await page.mouse.wheel(0, 40);
    await ended(page);
    await page.getByTestId('answer-ready').click();
    await page.getByTestId('answer-page').waitFor();
    await close(page);
  });
});

describe('access', () => {
  it('is fully usable by keyboard', QUICK, async () => {
    const page = await open(browser, `${gateway.url}/runs/${done}`);
    await ended(page);
    await page.keyboard.press('t');
    for (const key of ['ArrowRight', 'ArrowRight', 'ArrowDown', 'Enter']) await page.keyboard.press(key);
    await page.waitForURL(/node=/);
    const selected = page.locator('[role=treeitem][aria-selected=true]');
    expect(await selected.getAttribute('aria-level')).toBe('3');
    await page.keyboard.press('/');
    await page.keyboard.type('s2.s2');
    await page.keyboard.press('Enter');
    await page.getByTestId('node-panel').getByRole('heading', { name: 's2.s2' }).waitFor();
    await page.keyboard.press('Escape');
    await page.keyboard.press('Escape');
    await page.keyboard.press('Escape');
    expect(page.url()).not.toContain('node=');
    await page.keyboard.press('?');
    await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor();
    await close(page);
  });

  it('shows graph, list and panel at 360 px, without horizontal scrolling', async () => {
    const page = await open(browser, `${gateway.url}/runs/${done}`, { viewport: { width: 360, height: 740 } });
    await ended(page);
    // A phone begins with the outline.
    const list = page.getByRole('button', { name: 'List', exact: true });
    expect(await list.getAttribute('aria-pressed')).toBe('true');
    await list.click();
    await page.getByTestId('graph').locator('canvas').waitFor();
    await list.click();
    await treeItem(page, 's1.s0').click();
    await page.getByTestId('node-panel').getByRole('heading', { name: 's1.s0' }).waitFor();
    await page.getByRole('button', { name: 'Time line', exact: true }).click();
    await page.getByTestId('time-line').waitFor();
    await page.getByRole('button', { name: 'Events', exact: true }).click();
    await page.getByTestId('event-rows').waitFor();
    for (const path of [`/runs/${done}`, '/runs', '/runs?new=1']) {
      await page.goto(gateway.url + path);
      await page.getByRole('button').first().waitFor();
      await drawn(page);
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
    }
    await close(page);
  });

  it('follows the system’s colour scheme or the user’s choice, and reduces motion', async () => {
    const page = await open(browser, `${gateway.url}/runs`, { colorScheme: 'dark', reducedMotion: 'reduce' });
    const background = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    const dark = await background();
    await page.getByRole('button', { name: /Switch to light/ }).click();
    expect(await background()).not.toBe(dark);
    await page.reload();
    expect(await background()).not.toBe(dark);
    await page.getByRole('button', { name: /Switch to dark/ }).click();
    expect(await background()).toBe(dark);
    expect(await page.evaluate(() => document.getAnimations().length)).toBe(0);
    await close(page);
  });
});

describe('trouble', () => {
  it('reconnects by itself after the gateway was killed, and misses nothing', QUICK, async () => {
    const run = await gateway.run('Survive', 'scripted:fanout=3,depth=2,latency_ms=600');
    const page = await open(browser, `${gateway.url}/runs/${run}`);
    await connection(page, 'live');
    await gateway.kill();
    await page.locator('[data-connection="reconnecting"], [data-connection="stale"]').waitFor();
    await page.getByText(/last event/).waitFor();
    expect(await page.locator('.pulse').count()).toBe(0);
    await connection(page, 'stale');
    await gateway.start();
    await page.locator('[data-connection="live"], [data-connection="ended"]').waitFor();
    await page.locator('[data-connection="ended"]').waitFor({ timeout: 45_000 });
    expect(await treeOf(page)).toEqual(statuses(await graphAt(run)));
    await close(page);
  });

  it('is reported when a run or node does not exist', async () => {
    for (const id of ['01a2013c-5e45-71b4-a4c0-000000000000', 'nonsense']) {
      const page = await open(browser, `${gateway.url}/runs/${id}`);
      await page.getByText('Run not found').waitFor();
      await page.getByRole('link', { name: 'All runs' }).click();
      await page.waitForURL('**/runs');
      await close(page);
    }
    const page = await open(browser, `${gateway.url}/runs/${done}?node=01a2013c-5e45-71b4-a4c0-000000000000`);
    await page.getByText('Node not found').waitFor();
    await close(page);
  });

  it('shows a failed run with its reason when the root failed', async () => {
    const run = await gateway.run('Fail at once', 'scripted:fail=rejected,fail_role=any,depth=0');
    const page = await open(browser, `${gateway.url}/runs/${run}`);
    await ended(page);
    await page.locator('header').getByText('Failed', { exact: true }).first().waitFor();
    await page.getByRole('alert').filter({ hasText: 'rejected' }).first().waitFor();
    await page.locator('[data-card][data-status=failed]').waitFor();
    await close(page);
  });

  it('stops a run and discards its results, which is then shown as cancelled', async () => {
    const run = await gateway.run('Be cancelled', 'scripted:fanout=3,depth=2,latency_ms=10000');
    const page = await open(browser, `${gateway.url}/runs/${run}`);
    await page.getByTestId('run-commands').getByRole('button', { name: 'Stop' }).click();
    await page.getByRole('radio', { name: /^Discard/ }).check();
    await page.getByRole('button', { name: 'Stop run and discard' }).and(page.locator(':enabled')).click();
    await page.locator('header').getByText('Cancelled', { exact: true }).waitFor();
    await ended(page);
    await close(page);
  });
});
