// The graph, against a real gateway: how every state looks, also to colour-blind users; when it is laid out; what live
// events do not change.

import type { Browser, BrowserContextOptions, Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { launch } from './browser';
import { Gateway } from './gateway';
import { aggregated, direct, executed, LanguageModel, plan } from './language-model';
import { close, connection, drawn, open, openIn, shownSeq, treeItem, treeOf, until, WIDE } from './page';

const ONCE = 'Grow once';
let release = (): void => {};
let held: Promise<void> = Promise.resolve();
const hold = (): void => {
  // Answers that an earlier test left waiting would block the ones after it.
  release();
  held = new Promise((resolve) => (release = resolve));
};

const BY_ONE = 'Grow one by one';
/** Lets the next planner of the last level answer. */
const turns: (() => void)[] = [];

/** Plans of three steps each: one level, whose executors wait, or three levels, the last of which waits. */
const model = new LanguageModel(async ({ role, said, hasToolResults }) => {
  const title = (said.match(/Part [\d.]*\d/g) ?? []).toSorted((a, b) => b.length - a.length)[0];
  const depth = title === undefined ? 0 : title.split('.').length;
  const once = said.includes(ONCE);
  if (role === 'aggregator') return aggregated('All of it.');
  if (role === 'executor') {
    if (!hasToolResults) return { tools: [{ name: 'list_documents', args: {} }] };
    if (once) await held;
    return executed('Done', '# Done');
  }
  if (depth === 2 && said.includes(BY_ONE)) await new Promise<void>((resolve) => turns.push(resolve));
  else if (depth === 2) await held;
  if (depth === (once ? 1 : 3)) return direct('Small.');
  return plan(
    [1, 2, 3].map((n) => ({
      id: `s${n}`,
      title: title === undefined ? `Part ${n}` : `${title}.${n}`,
      reason: 'It is a part',
      successCriteria: ['It is there'],
    })),
  );
});

let gateway: Gateway;
let browser: Browser;

beforeAll(async () => {
  await model.listen();
  gateway = new Gateway(['--model-balanced', 'openai:gpt-4.1-mini', '--model-base-url', model.url], {
    OPENAI_API_KEY: 'sk-test-0123456789',
  });
  [browser] = await Promise.all([launch(), gateway.start()]);
});
afterAll(async () => {
  release();
  for (const turn of turns) turn();
  await browser?.close();
  await gateway?.stop();
  await model.close();
});

interface Told {
  seq: number;
  nodeId: string;
  type: string;
  payload: { status?: string };
}
const events = async (run: string): Promise<Told[]> =>
  (await gateway.cli('events', run, '-o', 'jsonl'))
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Told);

/** The hue of an element's colour, in degrees. */
const hue = (of: Locator): Promise<number> =>
  of.evaluate((e) => {
    const [r, g, b] = getComputedStyle(e)
      .backgroundColor.match(/[\d.]+/g)!
      .map(Number) as [number, number, number];
    const [most, least] = [Math.max(r, g, b), Math.min(r, g, b)];
    const sixth =
      most === r ? (g - b) / (most - least) : most === g ? 2 + (b - r) / (most - least) : 4 + (r - g) / (most - least);
    return (sixth * 60 + 360) % 360;
  });

const WARM = [25, 60];
const COOL = [195, 290];
const GREEN = [140, 175];
const RED = [345, 375];

describe('a card', () => {
  it('shows every state by icon, word, colour and border, in one shape', async () => {
    const run = await gateway.run('Go through it', 'scripted:fanout=2,depth=1,tools=1,fail=rejected,fail_titles=s1');
    const stuck = await gateway.run('Be stuck', 'scripted:fanout=2,depth=1,fail=unreachable,fail_titles=s1');
    await until(
      () => gateway.graph(run),
      (graph) => graph.status === 'completed',
      'the run ends',
    );
    await until(
      () => gateway.graph(stuck),
      (graph) => graph.nodes.some((n) => n.status === 'blocked'),
      'a node is blocked',
    );
    await gateway.cli('cancel', stuck);
    const logs = new Map(await Promise.all([run, stuck].map(async (id) => [id, await events(id)] as const)));
    const looks: [string, string, string, string, number[] | undefined][] = [
      [run, 'planning', 'Planning', 'dashed', WARM],
      [run, 'delegating', 'Delegating', 'dashed', WARM],
      [run, 'executing', 'Executing', 'solid', WARM],
      [run, 'waiting', 'Waiting', 'solid', COOL],
      [run, 'aggregating', 'Aggregating', 'solid', COOL],
      [run, 'completed', 'Completed', 'solid', GREEN],
      [run, 'failed', 'Failed', 'solid', RED],
      [stuck, 'blocked', 'Blocked', 'solid', undefined],
      [stuck, 'cancelled', 'Cancelled', 'solid', undefined],
    ];
    for (const colorScheme of ['light', 'dark'] as const) {
      const context = await browser.newContext({ viewport: WIDE, colorScheme, reducedMotion: 'reduce' });
      const pages = new Map<string, Awaited<ReturnType<typeof openIn>>>();
      for (const id of [run, stuck]) {
        pages.set(id, await openIn(context, `${gateway.url}/runs/${id}`));
        await connection(pages.get(id)!, 'ended');
      }
      const icons = new Set<string>();
      const shapes = new Set<string>();
      for (const [of, status, word, border, range] of looks) {
        const event = logs
          .get(of)!
          .find(
            (e) => (e.type === 'tree.node_status' && e.payload.status === status) || e.type === `tree.node_${status}`,
          )!;
        const page = pages.get(of)!;
        await page.getByLabel('Event of the run').fill(String(event.seq));
        const card = page.locator(`[data-card="${event.nodeId}"][data-status="${status}"]`);
        await card.getByText(word, { exact: true }).waitFor();
        const style = await card.evaluate((e) => {
          const { borderTopStyle, borderRadius, width, height } = getComputedStyle(e);
          return {
            border: borderTopStyle,
            shape: `${width} x ${height}, ${borderRadius}`,
            icon: e.querySelector('.status svg')!.innerHTML,
          };
        });
        expect([status, style.border]).toEqual([status, border]);
        icons.add(style.icon);
        shapes.add(style.shape);
        const at = await hue(card.locator('.stripe'));
        const within = ([from, to]: number[]): boolean => [at, at + 360].some((h) => h >= from! && h <= to!);
        if (range !== undefined) expect(within(range), `${status} at ${at} degrees`).toBe(true);
      }
      expect(icons.size).toBe(looks.length);
      expect([...shapes]).toHaveLength(1);
      expect([...shapes][0]).toMatch(/, [1-9]\d*px$/);
      for (const page of pages.values()) expect(page.problems).toEqual([]);
      await context.close();
    }
  });

  it('says what it does, its role and its band', async () => {
    const run = await gateway.run('Use a tool', 'scripted:fanout=2,depth=1,bands=2,tools=1');
    await until(
      () => gateway.graph(run),
      (graph) => graph.status === 'completed',
      'the run ends',
    );
    const step = (await gateway.graph(run)).nodes.at(-1)!;
    const [asked, answered] = (await events(run))
      .filter((e) => e.type.startsWith('tree.tool_call_') && e.nodeId === step.id)
      .slice(-2);
    const page = await open(browser, `${gateway.url}/runs/${run}?seq=${asked!.seq}`);
    const card = page.locator(`[data-card="${step.id}"]`);
    await card.getByText('TOOL: list_documents', { exact: true }).waitFor();
    await card.getByText('[RUNNING]', { exact: true }).waitFor();
    await card.getByText('Executor', { exact: true }).waitFor();
    await card.getByText('B2', { exact: true }).waitFor();
    await page.locator('[data-card]').filter({ hasText: 'Use a tool' }).getByText('Planner', { exact: true }).waitFor();
    for (let seq = asked!.seq; seq < answered!.seq; seq++) await page.keyboard.press(']');
    await card.getByText('[OK]', { exact: true }).waitFor();
    await close(page);
  });
});

type Lab = [number, number, number];

/** The visible difference of two colours (CIE 1976): 2 can just be seen, 100 is black and white. */
const apart = (a: Lab, b: Lab): number => Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);

function lab([r, g, b]: number[]): Lab {
  const [lr, lg, lb] = [r!, g!, b!].map((v) =>
    v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4,
  ) as Lab;
  const f = (t: number): number => (t > 216 / 24_389 ? Math.cbrt(t) : ((24_389 / 27) * t + 16) / 116);
  const x = f((0.4124 * lr + 0.3576 * lg + 0.1805 * lb) / 0.9505);
  const y = f(0.2126 * lr + 0.7152 * lg + 0.0722 * lb);
  const z = f((0.0193 * lr + 0.1192 * lg + 0.9505 * lb) / 1.089);
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

describe('the palette', () => {
  const TONES = ['warm', 'cool', 'good', 'bad', 'agg', 'held', 'off'];

  it.each(['light', 'dark'] as const)(
    'keeps its colours apart for users with colour blindness, in %s',
    async (colorScheme) => {
      const page = await open(browser, `${gateway.url}/runs`, { colorScheme });
      await page.evaluate((tones) => {
        const row = document.createElement('div');
        row.style.cssText = 'position: fixed; inset: 0 auto auto 0; z-index: 9; display: flex';
        for (const tone of tones)
          row.innerHTML += `<i class="tone-${tone}" style="width: 20px; height: 20px; background: var(--tone)"></i>`;
        document.body.append(row);
      }, TONES);
      const devtools = await page.context().newCDPSession(page);
      for (const type of ['none', 'deuteranopia', 'protanopia', 'tritanopia'] as const) {
        await devtools.send('Emulation.setEmulatedVisionDeficiency', { type });
        const picture = (
          await page.screenshot({ clip: { x: 0, y: 0, width: 20 * TONES.length, height: 20 } })
        ).toString('base64');
        const seen = await page.evaluate(
          async ([png, n]) => {
            const image = new Image();
            image.src = `data:image/png;base64,${png}`;
            await image.decode();
            const canvas = document.createElement('canvas');
            canvas.width = image.width;
            canvas.height = image.height;
            const ctx = canvas.getContext('2d')!;
            ctx.drawImage(image, 0, 0);
            return Array.from({ length: n }, (_, i) => [...ctx.getImageData(20 * i + 10, 10, 1, 1).data.slice(0, 3)]);
          },
          [picture, TONES.length] as const,
        );
        const labs = seen.map(lab);
        for (let i = 0; i < TONES.length; i++) {
          for (let j = 0; j < i; j++)
            expect(apart(labs[i]!, labs[j]!), `${TONES[i]} and ${TONES[j]}, ${type}`).toBeGreaterThan(12);
        }
      }
      await close(page);
    },
  );
});

describe('the layout', () => {
  /** A page that records when it requests a layout from its worker. */
  const watched = async (
    run: string,
  ): Promise<{ page: Page & { problems: string[] }; asked: () => Promise<number[]> }> => {
    const page = await openIn(await browser.newContext(), `${gateway.url}/runs/${run}`, (empty) =>
      empty.addInitScript(() => {
        const asked: number[] = ((globalThis as unknown as { asked: number[] }).asked = []);
        const post = Worker.prototype.postMessage as (...args: unknown[]) => void;
        Worker.prototype.postMessage = function (this: Worker, ...args: unknown[]) {
          asked.push(performance.now());
          post.apply(this, args);
        };
      }),
    );
    return { page, asked: () => page.evaluate(() => (globalThis as unknown as { asked: number[] }).asked) };
  };

  it('runs in a worker, at most four times a second however fast the tree grows', async () => {
    const run = await gateway.run(BY_ONE, 'llm');
    const { page, asked } = await watched(run);
    for (let nodes = 13; nodes <= 40; nodes += 3) {
      await until(
        () => page.getByRole('treeitem').count(),
        (n) => n === nodes,
        'it grows',
      );
      if (nodes < 40)
        (await until(
          async () => turns.shift(),
          (turn) => turn !== undefined,
          'the next one plans',
        ))!();
    }
    await connection(page, 'ended');
    expect(page.workers()).toHaveLength(1);
    const times = await asked();
    expect(times.length).toBeGreaterThan(1);
    // A busy machine may record one late, and so the next too soon after it.
    times.slice(4).forEach((at, i) => expect(at - times[i]!).toBeGreaterThan(975));
    await close(page);
  });

  it('does not change with statuses, tools, notes, usage and results', async () => {
    hold();
    const run = await gateway.run(ONCE, 'llm');
    const { page, asked } = await watched(run);
    // Cards have a position once they have been laid out.
    await until(
      () => page.locator('[data-card]').count(),
      (n) => n === 4,
      'the tree is whole',
    );
    await page.getByTestId('phrase').filter({ hasText: 'works alone: a small task' }).first().waitFor();
    await page.locator('.pulse[data-status=executing]').first().waitFor();
    expect(await page.locator('.pulse[data-status=waiting]').count()).toBe(0);
    const before = (await asked()).length;
    const then = await shownSeq(page);
    release();
    await connection(page, 'ended');
    const types = new Set((await events(run)).filter((e) => e.seq > then).map((e) => e.type));
    for (const type of [
      'node_status',
      'scratchpad_updated',
      'usage_recorded',
      'artifact_created',
      'node_result',
      'node_completed',
      'step_status',
    ])
      expect([...types]).toContain(`tree.${type}`);
    expect((await asked()).length).toBe(before);
    expect(await page.locator('.pulse').count()).toBe(0);
    await close(page);
  });
});

describe('live events', () => {
  /** A page of a run that has grown its first levels, and grows its last one when the test lets it. */
  const growing = async (
    options: BrowserContextOptions,
  ): Promise<{ run: string; page: Awaited<ReturnType<typeof open>> }> => {
    hold();
    const run = await gateway.run('Grow in steps', 'llm');
    const page = await open(browser, `${gateway.url}/runs/${run}`, { reducedMotion: 'reduce', ...options });
    await until(
      () => page.getByRole('treeitem').count(),
      (n) => n === 13,
      'the last level is held',
    );
    return { run, page };
  };

  it('let the tree grow to what the server has, without moving the selection', async () => {
    const { run, page } = await growing({});
    await connection(page, 'live');
    const first = page.locator('[data-card]').filter({ hasText: 'Grow in steps' });
    await first.click({ position: { x: 120, y: 20 } });
    await page.getByTestId('node-panel').waitFor();
    await drawn(page);
    const view = async () => {
      const graph = page.getByTestId('graph');
      const { x, y } = (await first.boundingBox())!;
      return {
        k: await graph.getAttribute('data-k'),
        tx: await graph.getAttribute('data-tx'),
        ty: await graph.getAttribute('data-ty'),
        x,
        y,
      };
    };
    const looked = await view();
    release();
    await connection(page, 'ended');
    const { nodes } = await gateway.graph(run);
    expect(nodes).toHaveLength(40);
    expect(await treeOf(page)).toEqual(Object.fromEntries(nodes.map((n) => [n.id, n.status])));
    await drawn(page);
    expect(await view()).toEqual(looked);
    await close(page);
  });

  it('leave the selected node in its place while its older siblings grow', async () => {
    const { page } = await growing({});
    await treeItem(page, /^Part 3,/).click();
    const last = page.locator('[data-card][class*=selected]');
    await last.waitFor();
    await drawn(page);
    const box = async () => {
      const { x, y } = (await last.boundingBox())!;
      return { x: Math.round(x), y: Math.round(y), k: await page.getByTestId('graph').getAttribute('data-k') };
    };
    const before = await box();
    const older = page.locator('[data-card]').filter({ has: page.locator('.name', { hasText: /^Part 2$/ }) });
    const height = async (): Promise<number> =>
      (await older.boundingBox({ timeout: 1000 }).catch(() => null))?.y ?? -Infinity;
    const above = await height();
    expect(above).toBeGreaterThan(0);
    release();
    await connection(page, 'ended');
    await until(height, (y) => y < above - 50, 'the older sibling has moved up');
    expect(await box()).toEqual(before);
    await close(page);
  });

  it('change neither zoom, selection, folds nor scroll positions', async () => {
    const { run, page } = await growing({ viewport: { width: 1300, height: 420 } });
    const tree = page.getByRole('tree');
    const panel = page.locator('[role=tabpanel]');
    await treeItem(page, /^Part 1,/).click();
    await page.keyboard.press('t');
    await page.keyboard.press('ArrowLeft');
    await page.getByTestId('graph').hover();
    await page.mouse.wheel(0, -1000);
    await treeItem(page, /^Part 2,/).click();
    await page.getByTestId('node-panel').getByRole('heading', { name: 'Part 2' }).waitFor();
    const scroll = async (of: Locator, by: number): Promise<void> => {
      await of.hover();
      await page.mouse.wheel(0, by);
      await until(
        () => of.evaluate((e) => e.scrollTop),
        (top) => top > 0,
        'it scrolls',
      );
    };
    await scroll(tree, 60);
    await scroll(panel, 40);
    const look = async () => {
      const box = (await page.locator('[data-card][class*=selected]').boundingBox())!;
      return JSON.stringify({
        k: await page.getByTestId('graph').getAttribute('data-k'),
        x: Math.round(box.x),
        y: Math.round(box.y),
        selected: await page.locator('[role=treeitem][aria-selected=true]').getAttribute('data-node-id'),
        folded: await page
          .locator('[role=treeitem][aria-expanded=false]')
          .evaluateAll((all) => all.map((e) => e.getAttribute('data-node-id'))),
        tree: await tree.evaluate((e) => e.scrollTop),
        panel: await panel.evaluate((e) => e.scrollTop),
        url: page.url(),
      });
    };
    await drawn(page);
    const before = await until(look, (now) => JSON.parse(now).folded.length === 1, 'one is folded');
    release();
    await connection(page, 'ended');
    expect((await gateway.graph(run)).nodes).toHaveLength(40);
    await until(
      () => page.getByRole('treeitem').count(),
      (n) => n === 28,
      'all but what is folded is there',
    );
    await drawn(page);
    expect(JSON.parse(await look())).toEqual(JSON.parse(before));
    await close(page);
  });
});
