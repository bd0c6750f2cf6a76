// Runs of a language model: names of tools that were never offered, titles and texts that contain
// HTML, usage, reasons and criteria. A real gateway with a fake model.

import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { launch } from './browser';
import { Gateway } from './gateway';
import { aggregated, direct, executed, LanguageModel, plan } from './language-model';
import { close, connection, drawn, open, treeItem, until } from './page';

const EVIL = '<img src=x onerror="globalThis.hacked=1">';
const TITLES = { evil: `First ${EVIL}`, fromTheRight: 'שלום עולם, the second part', refused: 'The third part' };
/** Lets the executors answer. */
let release = (): void => {};
let held: Promise<void> = Promise.resolve();
const hold = (): void => void (held = new Promise((resolve) => (release = resolve)));

const model = new LanguageModel(async ({ role, said, hasToolResults }) => {
  const about = (title: string): boolean => said.includes(JSON.stringify(title).slice(1, -1)) || said.includes(title);
  if (role === 'planner') {
    if (Object.values(TITLES).some(about)) return direct(`Small. ${EVIL}`);
    return plan(
      Object.values(TITLES).map((title, i) => ({
        id: `s${i}`,
        title,
        reason: `Because ${EVIL}`,
        successCriteria: [`It is there ${EVIL}`, 'It is short'],
      })),
    );
  }
  if (role === 'aggregator') return aggregated(`All parts ${EVIL}`);
  if (about(TITLES.refused)) {
    await held;
    return {
      status: 400,
      body: JSON.stringify({ error: { message: `this prompt offends ${EVIL}`, type: 'invalid_request_error' } }),
    };
  }
  if (!hasToolResults)
    return {
      tools: [
        { name: EVIL, args: { query: EVIL } },
        { name: 'search_documents', args: { query: `tides ${EVIL}` } },
      ],
    };
  await held;
  return executed(
    `Done ${EVIL}`,
    `# Done ${EVIL}\n\n[run](javascript:globalThis.hacked=1) <script>globalThis.hacked=1</script>`,
  );
});

let gateway: Gateway;
let browser: Browser;

beforeAll(async () => {
  gateway = await model.gateway();
  [browser] = await Promise.all([launch(), gateway.start()]);
});
afterAll(async () => {
  release();
  await browser?.close();
  await gateway?.stop();
  await model.close();
});

describe('a run of a language model', () => {
  it('shows hostile tool names, titles, errors and answers as text, while it is active and when it has ended', async () => {
    hold();
    const run = await gateway.run(`What do the tides do? ${'very long '.repeat(1000)}${EVIL}`, 'llm');
    const page = await open(browser, `${gateway.url}/runs/${run}`);
    const id = await treeItem(page, /^First <img/).getAttribute('data-node-id');
    const card = page.locator(`[data-card="${id}"]`);
    await card.getByText('Executing').waitFor();
    // A long title takes no more room than others, and right-to-left text begins on the right.
    const k = Number(await page.getByTestId('graph').getAttribute('data-k'));
    for (const one of await page.locator('[data-card]').all())
      expect((await one.boundingBox())!.height / k).toBeCloseTo(92, 0);
    const right = page.locator('[data-card]').filter({ hasText: 'שלום' }).locator('.name');
    expect(await right.evaluate((e) => getComputedStyle(e).direction)).toBe('rtl');
    release();
    await connection(page, 'ended');
    await treeItem(page, /^First <img/).click();
    const panel = page.getByTestId('node-panel');
    await page.getByRole('tab', { name: /Tools/ }).click();
    await panel.getByText(EVIL, { exact: true }).first().waitFor();
    await panel.getByText('search_documents').first().waitFor();
    for (const tab of ['Overview', 'Scratchpad', 'Plan', 'Timeline', 'Result']) {
      await page.getByRole('tab', { name: tab }).click();
      await page.getByRole('tab', { name: tab, selected: true }).waitFor();
    }
    await panel.getByRole('button', { name: 'Read' }).first().click();
    await panel.getByText('<script>').first().waitFor();
    await treeItem(page, /^The third part/).click();
    await page.getByRole('tab', { name: 'Overview' }).click();
    await panel.getByRole('alert').filter({ hasText: 'onerror=' }).waitFor();
    await page.keyboard.press('e');
    await page.getByLabel('Event type').selectOption('tree.tool_call_requested');
    await page.getByTestId('event-rows').getByText(`${EVIL} [RUNNING]`).first().waitFor();
    await drawn(page);
    expect(await page.evaluate(() => 'hacked' in globalThis)).toBe(false);
    expect(await page.locator('img[src=x], a[href^="javascript:"]').count()).toBe(0);
    // A search finds a tool by any name.
    await page.keyboard.press('/');
    await page.keyboard.type('search_doc');
    await page.getByTestId('match-count').filter({ hasText: '2 matches' }).waitFor();
    await close(page);
  });

  it('shows usage and progress on the cards, reason and criteria in the panel', async () => {
    hold();
    const run = await gateway.run('How far is it?', 'llm');
    const page = await open(browser, `${gateway.url}/runs/${run}`);
    const root = page.locator('[data-card]').filter({ hasText: 'How far is it?' });
    await root.getByText('waiting for 3 of 3').waitFor();
    expect(await root.locator('[data-progress]').getAttribute('data-progress')).toBe('0');
    // A self-hosted model has no price, so the cards show tokens instead of the cost.
    const used = async (): Promise<number> => Number((await root.innerText()).match(/([\d.]+)K tokens/)?.[1] ?? 0);
    const before = await until(used, (n) => n > 0, 'the root tells what was used');
    release();
    await connection(page, 'ended');
    expect(await used()).toBeGreaterThan(before);
    expect(await root.locator('[data-progress]').count()).toBe(0);
    await treeItem(page, /^First <img/).click();
    const panel = page.getByTestId('node-panel');
    await panel.getByText(`Because ${EVIL}`).waitFor();
    await panel.getByText('It is short', { exact: true }).waitFor();
    await panel.getByText(`It is there ${EVIL}`).waitFor();
    const total = await used();
    await page.goto(`${gateway.url}/runs`);
    await page.locator(`[data-run-id="${run}"]`).getByText(`${total}K`).waitFor();
    // The past shows the progress of its moment.
    const events = (await gateway.cli('events', run, '--type', 'tree.step_status', '-o', 'jsonl'))
      .trim()
      .split('\n')
      .map((l) => JSON.parse(l) as { seq: number; payload: { status: string } });
    const first = events.find((e) => ['completed', 'failed'].includes(e.payload.status))!;
    await page.goto(`${gateway.url}/runs/${run}?seq=${first.seq}`);
    await root.getByText('waiting for 2 of 3').waitFor();
    await close(page);
  });
});
