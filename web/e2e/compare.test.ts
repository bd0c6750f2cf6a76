// Two runs compared, against a real gateway: chosen in the list, both trees, the table, the text, by mouse and by
// keyboard.

import type { Browser, Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { launch } from './browser';
import { QUICK } from './quick';
import { Gateway } from './gateway';
import { close, open, treeItem, until } from './page';

const gateway = new Gateway();
let browser: Browser;
/**
 * Two runs of the same tree. In the second one leaf fails, one node has more leaves, and what is returned is longer.
 */
let first: string;
let second: string;

beforeAll(async () => {
  [browser] = await Promise.all([launch(), gateway.start()]);
  first = await gateway.run('Map the coast', 'scripted:fanout=2,depth=2,artifacts=document');
  second = await gateway.run(
    'Map the coast',
    'scripted:fanout=3,depth=2,artifacts=document,result_bytes=3000,fail=rejected,fail_titles=s1.s0',
  );
  for (const run of [first, second])
    await until(
      () => gateway.graph(run),
      (g) => g.status === 'completed',
      'the run ends',
      60_000,
    );
});
afterAll(async () => {
  await browser?.close();
  await gateway.stop();
});

/** Where both graphs stand. */
const cameras = (page: Page) =>
  Promise.all(
    ['graph-a', 'graph-b'].map((id) =>
      page.getByTestId(id).evaluate((e) => [e.dataset.k, e.dataset.tx, e.dataset.ty].join()),
    ),
  );

describe('two runs', () => {
  it('are chosen in the list, and shown side by side with what differs', QUICK, async () => {
    const page = await open(browser, `${gateway.url}/runs`);
    for (const run of [first, second]) await page.locator(`[data-run-id="${run}"]`).getByRole('checkbox').check();
    await page.getByRole('link', { name: 'Compare' }).click();
    await page.waitForURL(`**/compare?a=${first}&b=${second}`);
    const diff = JSON.parse(await gateway.cli('diff', first, second, '-o', 'json', '--all')) as {
      counts: Record<string, number>;
      synthesis: { removed: number; added: number };
    };
    const { same, changed, onlyA, onlyB } = diff.counts;
    await page
      .getByTestId('compare-counts')
      .getByText(`${same} nodes the same, ${changed} changed, ${onlyA} only in A, ${onlyB} only in B.`)
      .waitFor();
    const table = page.getByTestId('compare-table');
    expect(await table.getByRole('rowheader').allInnerTexts()).toEqual([
      'Outcome',
      'Cost',
      'Tokens',
      'Time',
      'Nodes',
      'Tool calls',
      'Event',
    ]);
    await table.getByRole('row', { name: /^Nodes 7 13 \+6 \(\+85 %\)/ }).waitFor();

    // A node that only one run has keeps its place in the other graph.
    const graphs = [page.getByTestId('graph-a'), page.getByTestId('graph-b')];
    await treeItem(page, /^Only in B, s2,/).click();
    const [gone, there] = graphs.map((graph) => graph.locator('[data-card][class*=selected]'));
    await gone!.getByText('Not in A').waitFor();
    await there!.getByText('Only in B').waitFor();
    const place = (card: Locator): Promise<string> => card.evaluate((e) => e.style.transform);
    expect(await place(gone!)).toBe(await place(there!));

    // Whichever is moved, the other one follows.
    const [before] = await cameras(page);
    const box = (await graphs[1]!.boundingBox())!;
    await page.mouse.move(box.x + 30, box.y + box.height - 20);
    await page.mouse.down();
    await page.mouse.move(box.x + 130, box.y + box.height - 60, { steps: 4 });
    await page.mouse.up();
    await until(
      () => cameras(page),
      ([a, b]) => a === b && a !== before,
      'both have moved',
    );
    await graphs[0]!.hover();
    await page.mouse.wheel(0, 300);
    const moved = await until(
      () => cameras(page),
      ([a, b]) => a === b && a !== before,
      'both have zoomed',
    );

    // By keyboard.
    await page.getByRole('group', { name: /^Both trees/ }).focus();
    await page.keyboard.press('ArrowRight');
    await until(
      () => cameras(page),
      ([a, b]) => a === b && a !== moved[0],
      'both have moved again',
    );
    const tree = page.getByRole('tree', { name: 'Nodes compared' });
    const failed = treeItem(page, /^Changed, s1\.s0, .*status completed → failed/);
    await failed.waitFor();
    await tree.getByRole('treeitem').first().focus();
    for (let i = 0; i < 20 && !(await failed.evaluate((e) => e === document.activeElement)); i++) {
      await page.keyboard.press('ArrowDown');
      await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
    }
    await page.keyboard.press('Enter');
    await page.getByTestId('chosen').getByText('s1.s0').waitFor();
    await graphs[0]!.locator('[data-card][class*=selected]').waitFor();
    await graphs[1]!.locator('[data-card][class*=selected]').waitFor();
    const rows = await tree.getByRole('treeitem').count();
    await page.getByRole('checkbox', { name: 'Differences only' }).uncheck();
    await until(
      () => tree.getByRole('treeitem').count(),
      (n) => n > rows || n === same! + changed! + onlyA! + onlyB!,
      'every node is listed',
    );

    // The text differs, with words beside the colours.
    await page.getByRole('heading', { name: 'What they returned' }).waitFor();
    const { removed, added } = diff.synthesis;
    const lines = (n: number): string => `${n} ${n === 1 ? 'line' : 'lines'}`;
    expect(added).toBeGreaterThan(0);
    await page.getByText(`${lines(removed)} removed, ${lines(added)} added.`).waitFor();
    await page.getByRole('link', { name: 'Swap A and B' }).click();
    await page.getByTestId('run-a').getByRole('link').waitFor();
    await page.waitForURL(`**/compare?a=${second}&b=${first}`);
    await page.getByTestId('compare-counts').getByText(`${onlyB} only in A`).waitFor();
    await page.getByTestId('chosen').waitFor({ state: 'detached' });
    await close(page);
  });

  it('show why they cannot be compared', async () => {
    const page = await open(browser, `${gateway.url}/compare?a=${first}&b=00000000-0000-4000-8000-000000000009`);
    await page.getByText('Not found').waitFor();
    await page.getByRole('link', { name: 'All runs' }).waitFor();
    await close(page);
  });
});
