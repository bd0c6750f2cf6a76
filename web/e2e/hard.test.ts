// Stress, against a real gateway: hostile documents, a flood of events, a run that disappears while it is watched,
// text far back in a scratchpad, trees beyond what budgets allow.

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type EventLine, withNodes, writeArchive } from './archive';
import { launch } from './browser';
import { QUICK } from './quick';
import { Gateway } from './gateway';
import { close, connection, drawn, open, shownSeq, treeItem, until } from './page';

const gateway = new Gateway();
let browser: Browser;
let docs: string;

const EVIL = '<img src=x onerror="globalThis.hacked=1"><script>globalThis.hacked=1</script>';
const LONG = `${'very long tides '.repeat(640)}end`;

beforeAll(async () => {
  docs = await mkdtemp(join(tmpdir(), 'tree-agent-hostile-'));
  await writeFile(
    join(docs, 'a.md'),
    `# Tides ${EVIL}\n\nTides follow the moon. ${EVIL} [run the tides](javascript:globalThis.hacked=1)\n`,
  );
  await writeFile(join(docs, 'b.md'), '# שלום עולם, the tides from the right\n\nTides rise twice a day.\n');
  await writeFile(join(docs, 'c.md'), `# ${LONG}\n\nTides fall twice a day, ${EVIL}\n`);
  [browser] = await Promise.all([launch(), gateway.start()]);
});
afterAll(async () => {
  await browser?.close();
  await gateway.stop();
  await rm(docs, { recursive: true, force: true });
});

const ended = (
  run: string,
): Promise<{ status: string; seq: number; nodes: { id: string; title: string; status: string }[] }> =>
  until(
    async () => JSON.parse(await gateway.cli('graph', run, '--format', 'json')),
    (g) => g.status === 'completed',
    'the run ends',
    240_000,
  );

describe('hostile text', () => {
  it('is shown and never executed, wherever it stands', QUICK, async () => {
    await gateway.cli('import', docs, '--project', 'Hostile');
    const run = await gateway.run(`What do the tides do? ${EVIL} ${LONG}`, 'offline', '--project', 'Hostile');
    const graph = await ended(run);
    const root = graph.nodes[0]!.id;
    const page = await open(browser, `${gateway.url}/runs/${run}?node=${root}`);
    await connection(page, 'ended');
    for (const tab of ['Overview', 'Plan', 'Scratchpad', 'Timeline', 'Tools', 'Result']) {
      await page.getByRole('tab', { name: tab }).click();
      await page.getByRole('tab', { name: tab, selected: true }).waitFor();
    }
    await page.getByRole('tab', { name: 'Scratchpad' }).click();
    await page.getByTestId('scratchpad').locator('strong').first().waitFor();
    expect(await page.getByTestId('scratchpad').innerText()).not.toContain('**');
    await page.getByRole('tab', { name: 'Result' }).click();
    await page.getByTestId('node-panel').getByRole('button', { name: 'Read' }).first().click();
    await page.getByTestId('node-panel').getByText('onerror=').first().waitFor();
    await page.keyboard.press('e');
    await page.getByTestId('event-rows').locator('.event').first().waitFor();
    await page.getByTestId('event-rows').getByText('onerror=').first().waitFor();
    await drawn(page);
    expect(await page.evaluate(() => 'hacked' in globalThis)).toBe(false);
    expect(await page.locator('img[src=x]').count()).toBe(0);
    expect(await page.locator('a[href^="javascript:"]').count()).toBe(0);
    await close(page);
  });

  it('cannot run: the gateway forbids inline script', async () => {
    const policy = (await fetch(gateway.url)).headers.get('content-security-policy');
    expect(policy).toContain("script-src 'self'");
    expect(policy).not.toMatch(/script-src[^;]*unsafe-inline/);
    const page = await open(browser, `${gateway.url}/runs`);
    const ran = await page.evaluate(() => {
      const script = document.createElement('script');
      script.textContent = 'globalThis.inline = 1';
      document.body.append(script);
      return 'inline' in globalThis;
    });
    expect(ran).toBe(false);
    page.problems.length = 0; // the refusal itself is logged as an error
    await close(page);
  });
});

describe('a flood', () => {
  it('of more than 100,000 events at once arrives completely, with few elements, and the page stays usable', async () => {
    const wide = [
      '--max-nodes',
      '20000',
      '--max-steps-per-band',
      '64',
      '--max-children-per-node',
      '64',
      '--max-parallel-steps',
      '64',
    ];
    const run = await gateway.run('Flood the page', 'scripted:fanout=21,depth=3', ...wide);
    const graph = await ended(run);
    expect(graph.seq).toBeGreaterThan(100_000);
    const page = await open(browser, `${gateway.url}/runs/${run}?view=time`);
    await until(
      () => shownSeq(page),
      (seq) => seq === graph.seq,
      'everything arrives',
      120_000,
    );
    await connection(page, 'ended');
    await until(
      () => page.getByTestId('event-rows').getAttribute('data-count'),
      (n) => n === String(graph.seq),
      'every event is listed',
      120_000,
    );
    expect(await page.evaluate(() => document.querySelectorAll('*').length)).toBeLessThan(5000);
    await page
      .getByTestId('facts')
      .getByText(`${graph.nodes.length.toLocaleString('en')} nodes`)
      .waitFor();
    const leaf = graph.nodes.at(-1)!;
    await page.goto(`${gateway.url}/runs/${run}?node=${leaf.id}`);
    await page
      .locator(`[data-panel-node="${leaf.id}"]`)
      .getByRole('heading', { name: leaf.title, exact: true })
      .waitFor({ timeout: 120_000 });
    await close(page);
  }, 400_000);
});

describe('a search', () => {
  it('finds text far back in a scratchpad', async () => {
    const run = await gateway.run('What do the tides do all day?', 'offline', '--project', 'Hostile');
    await ended(run);
    const page = await open(browser, `${gateway.url}/runs/${run}`);
    await connection(page, 'ended');
    await page.keyboard.press('/');
    await page.keyboard.type('**Plan.**');
    await page
      .getByTestId('match-count')
      .filter({ hasText: /^[1-9]\d* match/ })
      .waitFor();
    await close(page);
  });
});

describe('an answer of a tool', () => {
  it('is shown whole, and says so if the run knew it', async () => {
    const parts = '1. What do the tides do at night?\n2. What do the tides do by day?';
    const run = await gateway.run(parts, 'offline', '--project', 'Hostile');
    await ended(run);
    const lines = (await gateway.cli('events', run, '-o', 'jsonl'))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as EventLine);
    const known = lines.find((event) => event.type === 'tree.tool_call_requested' && event.payload.cached === true)!;
    const page = await open(browser, `${gateway.url}/runs/${run}?node=${known.nodeId}`);
    await connection(page, 'ended');
    const panel = page.getByTestId('node-panel');
    await page.getByRole('tab', { name: /Tools/ }).click();
    const call = panel.getByRole('listitem').filter({ hasText: 'Known already' }).first();
    await call.getByRole('button', { name: 'Whole answer' }).click();
    await call.getByText('"summary":').waitFor();
    await call.getByRole('button', { name: 'Hide the whole answer' }).click();
    await call.getByText('"summary":').waitFor({ state: 'detached' });
    await close(page);
  });
});

describe('a run that disappears', () => {
  it('is reported while it is watched, and the page keeps what it shows', async () => {
    const run = await gateway.run('Deleted soon', 'scripted:fanout=2,depth=1,latency_ms=60000');
    const page = await open(browser, `${gateway.url}/runs/${run}`);
    await connection(page, 'live');
    await treeItem(page, /Deleted soon/).waitFor();
    await gateway.kill();
    await gateway.wipe();
    await gateway.start();
    await connection(page, 'failed');
    await page.getByTestId('connection').getByText('the run no longer exists').waitFor();
    await treeItem(page, /Deleted soon/).waitFor();
    await close(page);
  });
});

describe('a tree beyond all budgets', () => {
  it('of a depth of 1,000 or a fan-out of 10,000 is laid out and can be reached to its last node', async () => {
    const small = await gateway.run('Be the root of it', 'scripted:depth=0');
    await ended(small);
    const log = (await gateway.cli('events', small, '-o', 'jsonl'))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as EventLine);
    const trees = [Array.from({ length: 999 }, (_, n) => n), Array.from({ length: 10_000 }, () => 0)].map((parents) =>
      withNodes(log, parents),
    );
    const folder = await mkdtemp(join(tmpdir(), 'tree-agent-archives-'));
    for (const tree of trees) await writeArchive(folder, tree);
    await gateway.restore(
      folder,
      trees.map((tree) => tree[0]!.runId),
    );
    await rm(folder, { recursive: true });
    for (const tree of trees) {
      const created = tree.filter((event) => event.type === 'tree.node_created');
      const page = await open(browser, `${gateway.url}/runs/${tree[0]!.runId}`);
      await connection(page, 'ended');
      await page
        .getByTestId('facts')
        .getByText(`${created.length.toLocaleString('en')} nodes`)
        .waitFor();
      await page.keyboard.press('0');
      await drawn(page);
      expect(await page.evaluate(() => document.querySelectorAll('*').length)).toBeLessThan(20_000);
      await page.keyboard.press('t');
      await page.keyboard.press('End');
      await page.locator('[role=treeitem]:focus').waitFor();
      await page.keyboard.press('Enter');
      const last = created.at(-1)!.nodeId;
      await page.locator(`[data-panel-node="${last}"]`).waitFor();
      const [card, view] = [page.locator(`[data-card="${last}"]`), (await page.getByTestId('graph').boundingBox())!];
      await card.waitFor();
      const box = await until(
        async () => (await card.boundingBox())!,
        ({ x, y, width, height }) =>
          x >= view.x && y >= view.y && x + width <= view.x + view.width && y + height <= view.y + view.height,
        'it is in view',
      );
      expect(box.width).toBeGreaterThan(100);
      await close(page);
    }
  });
});
