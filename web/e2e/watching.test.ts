// Watching runs that are active or huge, against a real gateway.

import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { launch } from './browser';
import { Gateway, type GraphJson } from './gateway';
import {
  close,
  connection,
  drawn,
  hide,
  open,
  settled,
  show,
  shownSeq,
  streams,
  treeItem,
  treeOf,
  until,
} from './page';

const gateway = new Gateway();
let browser: Browser;

beforeAll(async () => {
  [browser] = await Promise.all([launch(), gateway.start()]);
});
afterAll(async () => {
  await browser?.close();
  await gateway.stop();
});

const ended = (run: string): Promise<GraphJson> =>
  until(
    () => gateway.graph(run),
    (g) => g.status === 'completed',
    'the run ends',
    120_000,
  );
const statuses = (graph: GraphJson): Record<string, string> =>
  Object.fromEntries(graph.nodes.map((n) => [n.id, n.status]));

describe('the event log of an active run', () => {
  it('follows the tail, stops when the user scrolls up and says how many are new, and follows again', async () => {
    const run = await gateway.run('Talk a lot', 'scripted:fanout=4,depth=1,latency_ms=6000,notes=60');
    const page = await open(browser, `${gateway.url}/runs/${run}?view=time`);
    await connection(page, 'live');
    const rows = page.getByTestId('event-rows');
    const look = () =>
      rows.evaluate((e) => ({
        top: e.scrollTop,
        left: e.scrollHeight - e.scrollTop - e.clientHeight,
        count: Number((e as HTMLElement).dataset.count),
      }));
    await until(look, ({ count, left }) => count > 60 && left < 5, 'the tail is followed');
    await rows.hover();
    await page.mouse.wheel(0, -700);
    await until(look, ({ left }) => left > 300, 'scrolled up');
    const here = await settled(async () => (await look()).top);
    const fresh = page.getByRole('button', { name: /^[\d,]+ new$/ });
    await fresh.waitFor();
    const both = () =>
      page.evaluate(() => ({
        fresh: Number(
          [...document.querySelectorAll('button')].find((b) => / new$/.test(b.innerText))!.innerText.replace(/\D/g, ''),
        ),
        count: Number(document.querySelector<HTMLElement>('[data-testid=event-rows]')!.dataset.count),
      }));
    const first = await both();
    const later = await until(both, ({ count }) => count > first.count + 5, 'more events arrive');
    expect(later.fresh - first.fresh).toBe(later.count - first.count);
    expect((await look()).top).toBe(here);
    await fresh.click();
    await until(look, ({ left }) => left < 5, 'at the tail');
    const { count } = await look();
    await until(look, (now) => now.count > count + 5 && now.left < 5, 'it follows again');
    expect(await fresh.count()).toBe(0);
    await close(page);
  });
});

describe('a huge run', () => {
  let run: string;
  let graph: GraphJson;
  let failed: string[];
  beforeAll(async () => {
    run = await gateway.run(
      'A run of a thousand',
      'scripted:fanout=10,depth=3,fail=rejected,fail_every=60',
      '--max-nodes',
      '2000',
      '--max-steps-per-band',
      '10',
      '--max-parallel-steps',
      '64',
    );
    graph = await ended(run);
    failed = graph.nodes.filter((n) => n.status === 'failed').map((n) => n.id);
  }, 150_000);

  it('is shown with one node per subtree when zoomed out, and every failure is visible and can be reached', async () => {
    expect(graph.nodes.length).toBe(1111);
    expect(failed.length).toBeGreaterThan(5);
    const page = await open(browser, `${gateway.url}/runs/${run}`);
    await connection(page, 'ended');
    await page.locator('header').getByText('Partial').waitFor();
    await page.keyboard.press('0');
    await drawn(page);
    expect(await page.evaluate(() => document.querySelectorAll('*').length)).toBeLessThan(15_000);
    // The canvas shows the colour of failures, as the design tokens define it.
    const red = await page.evaluate(() => {
      const probe = document.createElement('span');
      probe.style.color = 'var(--bad)';
      document.body.append(probe);
      const [r, g, b] = getComputedStyle(probe).color.match(/\d+/g)!.map(Number);
      probe.remove();
      const canvas = document.querySelector('canvas')!;
      const { data } = canvas.getContext('2d')!.getImageData(0, 0, canvas.width, canvas.height);
      let n = 0;
      for (let i = 0; i < data.length; i += 4) if (data[i] === r && data[i + 1] === g && data[i + 2] === b) n += 1;
      return n;
    });
    expect(red).toBeGreaterThan(failed.length * 9);
    await page.keyboard.press('f');
    await page
      .getByTestId('match-count')
      .filter({ hasText: `${failed.length} matches` })
      .waitFor();
    const panel = page.getByTestId('node-panel');
    for (const id of [...failed, failed[0]!]) {
      await page.keyboard.press('n');
      await page.locator(`[data-panel-node="${id}"]`).waitFor();
      await panel.getByRole('alert').filter({ hasText: 'scripted failure' }).waitFor();
    }
    // The node it leads to is in view and close enough to read.
    const card = page.locator(`[data-card="${failed[0]!}"]`);
    await card.getByText('Failed').waitFor();
    const [box, view] = [await card.boundingBox(), await page.getByTestId('graph').boundingBox()];
    expect(box!.y).toBeGreaterThanOrEqual(view!.y);
    expect(box!.y + box!.height).toBeLessThanOrEqual(view!.y + view!.height);
    await page.keyboard.press('N');
    await page.locator(`[data-panel-node="${failed.at(-1)!}"]`).waitFor();
    await close(page);
  });

  it('has every node in the tree, with only those in view in the document', async () => {
    const flood = await gateway.run(
      'A run of two thousand',
      'scripted:fanout=13,depth=3',
      '--max-nodes',
      '3000',
      '--max-steps-per-band',
      '13',
      '--max-children-per-node',
      '13',
      '--max-parallel-steps',
      '64',
    );
    const all = await ended(flood);
    expect(all.nodes.length).toBe(2380);
    const page = await open(browser, `${gateway.url}/runs/${flood}`);
    await connection(page, 'ended');
    await page.keyboard.press('t');
    await page.keyboard.press('End');
    const last = page.locator('[role=treeitem]:focus');
    await last.waitFor();
    expect(await last.getAttribute('aria-label')).toMatch(/^s12\.s12\.s12,/);
    expect(await last.getAttribute('aria-posinset')).toBe('13');
    expect(await page.locator('[role=treeitem]').count()).toBeLessThan(200);
    await close(page);
  });
});

describe('a hidden page', () => {
  it('holds no stream, and resumes by seq when it is shown again; never more than one', async () => {
    const run = await gateway.run(
      'Go on while nobody looks',
      'scripted:fanout=2,depth=2,latency_ms=3000,notes=10,tools=1',
    );
    const page = await open(browser, `${gateway.url}/runs`);
    const seen = streams(page);
    await page.goto(`${gateway.url}/runs/${run}?tab=scratchpad`);
    await connection(page, 'live');
    await treeItem(page, /^Go on/).click();
    await page.getByTestId('scratchpad').waitFor();
    expect(seen.asked).toEqual([{ afterSeq: expect.any(Number), snapshot: false }]);
    expect(seen.asked[0]!.afterSeq).toBeGreaterThan(0);
    await hide(page);
    await connection(page, 'paused');
    await until(
      async () => seen.open,
      (n) => n === 0,
      'the stream is closed',
    );
    const then = await shownSeq(page);
    await until(
      () => gateway.graph(run),
      (g) => g.seq > then,
      'the run goes on',
    );
    expect(await shownSeq(page)).toBe(then);
    expect(await page.locator('.pulse').count()).toBe(0);
    await show(page);
    await until(
      () => shownSeq(page),
      (seq) => seq > then,
      'what happened meanwhile arrives',
    );
    expect(seen.asked.at(-1)).toEqual({ afterSeq: then, snapshot: false });
    await connection(page, 'ended');
    expect(await treeOf(page)).toEqual(statuses(await gateway.graph(run)));
    expect(seen.most).toBe(1);
    await close(page);
  });
});

describe('finding', () => {
  it('takes one click for active or blocked nodes, and a word for a tool, an error or a title', async () => {
    const run = await gateway.run(
      'Have one that cannot go on',
      'scripted:fanout=3,depth=1,tools=1,fail=unreachable,fail_titles=s1,fail_role=execute',
    );
    const page = await open(browser, `${gateway.url}/runs/${run}`);
    await connection(page, 'live');
    await until(
      () => treeOf(page),
      (t) => Object.values(t).filter((s) => s === 'completed').length === 2,
      'the others are done',
    );
    const matches = (text: string) => page.getByTestId('match-count').filter({ hasText: text }).waitFor();
    await page.getByRole('button', { name: /^Blocked 1/ }).click();
    await matches('1 match');
    const panel = page.getByTestId('node-panel');
    // Each attempt to reach its role unblocks the node for a moment, in which there is no blocked node to go to.
    const chosen = async (): Promise<number> => {
      await page.keyboard.press('n');
      return panel.getByRole('heading', { name: 's1' }).count();
    };
    await until(chosen, (n) => n === 1, 'the blocked one is chosen');
    await panel.getByText('Blocked', { exact: true }).waitFor();
    await until(
      () => treeItem(page, /^s1,/).getAttribute('data-status'),
      (s) => s === 'blocked',
      'the tree says so',
    );
    expect(page.url()).toContain('show=blocked');
    await page.getByRole('button', { name: /^Active/ }).click();
    expect(page.url()).toContain('show=active');
    await page.getByRole('button', { name: /^Active/ }).click();
    for (const [word, found] of [
      ['list_documents', '4 matches'],
      ['scripted failure of execute', '1 match'],
      ['s2', '1 match'],
      ['scripted: executed', '2 matches'],
    ] as const) {
      await page.getByRole('searchbox').fill(word);
      await matches(found);
    }
    expect(page.url()).toContain('q=scripted');
    await page.reload();
    await matches('2 matches');
    await close(page);
  });

  it('brings back node, folds, viewport, tab, events and time with a reload', async () => {
    const run = await gateway.run('Be looked at again', 'scripted:fanout=3,depth=2,tools=1');
    await ended(run);
    const page = await open(browser, `${gateway.url}/runs/${run}`);
    await connection(page, 'ended');
    const head = await shownSeq(page);
    await page.getByLabel('Event of the run').fill(String(head - 20));
    await page.waitForURL(/seq=/);
    await treeItem(page, /^s2,/).waitFor();
    await treeItem(page, /^s1,/).click();
    await page.keyboard.press('t');
    await page.keyboard.press('ArrowLeft');
    await page.getByRole('tab', { name: 'Timeline' }).click();
    await page.keyboard.press('-');
    await page.mouse.move(700, 400);
    await page.mouse.down();
    await page.mouse.move(640, 350, { steps: 4 });
    await page.mouse.up();
    await page.keyboard.press('e');
    await page.getByLabel('Event type').selectOption('tree.node_status');
    await page.getByRole('button', { name: 'This node' }).click();
    const look = async () => {
      await page.keyboard.press('e');
      await until(
        () => treeOf(page),
        (t) => Object.keys(t).length > 0,
        'the past is there',
      );
      await page.locator('[data-card][class*=selected], canvas').first().waitFor();
      await drawn(page);
      const graph = page.getByTestId('graph');
      const seen = {
        seq: await shownSeq(page),
        k: await graph.getAttribute('data-k'),
        tx: Math.round(Number(await graph.getAttribute('data-tx'))),
        ty: Math.round(Number(await graph.getAttribute('data-ty'))),
        selected: await page.locator('[aria-selected=true][role=treeitem]').getAttribute('aria-label'),
        folded: await page
          .locator('[role=treeitem][aria-expanded=false]')
          .evaluateAll((all) => all.map((e) => e.getAttribute('aria-label'))),
        tree: await treeOf(page),
      };
      await page.keyboard.press('e');
      return {
        ...seen,
        url: page.url(),
        events: await until(
          () => page.getByTestId('event-rows').getAttribute('data-count'),
          (n) => Number(n) > 0,
          'events are listed',
        ),
        type: await page.getByLabel('Event type').inputValue(),
      };
    };
    const before = await look();
    expect(before.folded).toHaveLength(1);
    for (const part of [
      'node=',
      `seq=${head - 20}`,
      'tab=timeline',
      'view=time',
      'type=tree.node_status',
      'events=node',
    ])
      expect(before.url).toContain(part);
    await page.reload();
    await connection(page, 'ended');
    await until(look, (now) => JSON.stringify(now) === JSON.stringify(before), 'all is as before').catch(async () =>
      expect(await look()).toEqual(before),
    );
    await close(page);
  });
});

describe('reduced motion', () => {
  it('stops the animations of an active run', async () => {
    const run = await gateway.run('Do not move', 'scripted:fanout=2,depth=1,latency_ms=4000');
    const moves = (page: Page): Promise<number> => page.evaluate(() => document.getAnimations().length);
    const still = await open(browser, `${gateway.url}/runs/${run}`, { reducedMotion: 'reduce' });
    const moving = await open(browser, `${gateway.url}/runs/${run}`, { reducedMotion: 'no-preference' });
    await Promise.all([connection(still, 'live'), connection(moving, 'live')]);
    await moving.locator('.pulse').first().waitFor();
    await still.locator('[data-card][data-status=planning]').first().waitFor();
    expect(await moves(moving)).toBeGreaterThan(0);
    expect(await moves(still)).toBe(0);
    await close(still);
    await close(moving);
  });
});
