// The cost of a run whose model has a price: from the tokens that the model's server reports to the dollars on the
// page. A real gateway, which takes the fake model for Anthropic's.

import { readFileSync } from 'node:fs';
import type { Browser, Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { AnthropicServer } from './anthropic';
import { launch } from './browser';
import { Gateway } from './gateway';
import { aggregated, direct, executed, LanguageModel, plan, verified } from './language-model';
import { close, connection, copyAs, details, open, shownSeq, treeItem, until } from './page';
import type { Tokens } from './wires';

const MODEL = 'anthropic:claude-sonnet-5';
const OBJECTIVE = 'What does the tide cost?';
const PARTS = ['Measure the tide', 'Price the tide'];
/** Odd amounts, which show when something is rounded too early or too late. */
const TOKENS = {
  plan: { fresh: 12_345, cached: 2_001, output: 678 },
  look: { fresh: 3_210, cached: 333, output: 111 },
  tools: { fresh: 5_000, cached: 1, output: 200 },
  answers: [
    { fresh: 100, cached: 7_777, output: 2_500 },
    { fresh: 101, cached: 7_778, output: 4_000 },
  ],
  aggregate: { fresh: 40_000, cached: 0, output: 3_000 },
  verify: { fresh: 9_001, cached: 13, output: 77 },
} satisfies Record<string, Tokens | Tokens[]>;

const price = (
  JSON.parse(readFileSync(new URL('../../crates/model/data/prices.json', import.meta.url), 'utf8')) as {
    models: Record<string, { input: number; cached: number; output: number }>;
  }
).models[MODEL]!;
/** Millionths of a dollar: the cost of each answer is rounded up, then summed. */
const micros = (...answers: Tokens[]): number =>
  answers.reduce(
    (sum, t) => sum + Math.ceil(t.fresh * price.input + t.cached * price.cached + t.output * price.output),
    0,
  );
/** As the page shows it, from a cent to a dollar. */
const dollars = (amount: number): string => {
  expect(amount).toBeGreaterThan(10_000);
  expect(amount).toBeLessThan(999_000);
  return `$${(amount / 1e6).toFixed(3)}`;
};

const before = PARTS.map(() => micros(TOKENS.look, TOKENS.tools));
const parts = TOKENS.answers.map((answer) => micros(TOKENS.look, TOKENS.tools, answer));
const root = micros(TOKENS.plan, TOKENS.aggregate, TOKENS.verify);
const total = root + parts[0]! + parts[1]!;

let release = (): void => {};
const held = new Promise<void>((resolve) => (release = resolve));
const asked = new Set<string>();

const model = new LanguageModel(
  async ({ role, model: name, said, hasToolResults }) => {
    asked.add(name);
    const part = PARTS.findIndex((title) => said.includes(title));
    if (role === 'aggregator') return { ...aggregated('As much as the moon.'), tokens: TOKENS.aggregate };
    if (role === 'planner' && part >= 0) return { ...direct('One look.'), tokens: TOKENS.look };
    if (role === 'planner') {
      const steps = PARTS.map((title, i) => ({
        id: `s${i}`,
        title,
        reason: 'It is a part',
        successCriteria: ['It is there'],
      }));
      return { ...plan(steps), tokens: TOKENS.plan };
    }
    if (!hasToolResults)
      return { tools: [{ name: 'search_documents', args: { query: 'tides' } }], tokens: TOKENS.tools };
    await held;
    return { ...executed('Done', '# Done'), tokens: TOKENS.answers[part]! };
  },
  { ...verified(), tokens: TOKENS.verify },
);

const server = new AnthropicServer();
let gateway: Gateway;
let browser: Browser;

beforeAll(async () => {
  gateway = new Gateway(['--model-balanced', MODEL], await server.listen(model));
  [browser] = await Promise.all([launch(), gateway.start()]);
});
afterAll(async () => {
  release();
  await browser?.close();
  await gateway?.stop();
  await model.close();
  server.close();
});

const card = (page: Page, title: string) => page.locator('[data-card]').filter({ hasText: title });

describe('what a model with a price costs', () => {
  it('is shown on cards, in the header, the panel and the list, to the millionth, live and in the past', async () => {
    const run = await gateway.run(OBJECTIVE, MODEL, '--max-cost', '0.9');
    const page = await open(browser, `${gateway.url}/runs/${run}`);
    const cards = async (amounts: number[]): Promise<void> => {
      for (const [i, title] of [OBJECTIVE, ...PARTS].entries())
        await card(page, title).getByText(dollars(amounts[i]!), { exact: true }).waitFor();
      await page
        .getByTestId('facts')
        .filter({ hasText: dollars(amounts[0]!) })
        .waitFor();
    };
    // Both wait for their last answer, and the cards show the cost until then.
    await cards([micros(TOKENS.plan) + before[0]! + before[1]!, ...before]);
    release();
    await connection(page, 'ended');
    await cards([total, ...parts]);
    expect([...asked]).toEqual([MODEL.split(':')[1]]);

    // The whole run: beside its budget, and to the millionth.
    const overview = await details(page);
    const costs = (of: Locator): Promise<string[]> => of.locator('[data-usage=costMicros] td').allInnerTexts();
    expect(await costs(overview)).toEqual([dollars(total)]);
    await overview.getByLabel(`Cost: ${dollars(total)} of $0.900`).waitFor();
    const shown = JSON.parse(await copyAs(page, 'JSON')) as {
      nodes: { title: string; usage: object; subtreeUsage: object }[];
    };

    // The same from the server: GetRun, the command line's list and graph.
    const { run: told } = JSON.parse(await gateway.rpc('RunService/GetRun', JSON.stringify({ runId: run }))) as {
      run: { usage: { costMicros: string } };
    };
    expect(Number(told.usage.costMicros)).toBe(total);
    const listed = (await gateway.cli('runs', '-o', 'jsonl'))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { runId: string; usage: object });
    const all = [
      TOKENS.plan,
      TOKENS.look,
      TOKENS.look,
      TOKENS.tools,
      TOKENS.tools,
      ...TOKENS.answers,
      TOKENS.aggregate,
      TOKENS.verify,
    ];
    const sum = (of: (t: Tokens) => number): number => all.reduce((n, t) => n + of(t), 0);
    const whole = {
      inputTokens: sum((t) => t.fresh + t.cached),
      cachedTokens: sum((t) => t.cached),
      outputTokens: sum((t) => t.output),
      costMicros: total,
    };
    expect(listed.find((r) => r.runId === run)!.usage).toMatchObject(whole);
    const graph = await gateway.graph(run);
    const expected = [[OBJECTIVE, root, total], ...PARTS.map((title, i) => [title, parts[i], parts[i]])];
    for (const nodes of [graph.nodes, shown.nodes]) {
      expect(
        nodes.map((n) => [
          n.title,
          (n.usage as { costMicros: number }).costMicros,
          (n.subtreeUsage as { costMicros: number }).costMicros,
        ]),
      ).toEqual(expected);
      expect(nodes[0]!.subtreeUsage).toMatchObject(whole);
    }

    // A node alone, and with its descendants.
    const panel = page.getByTestId('node-panel');
    await treeItem(page, new RegExp(`^What does the tide cost`)).click();
    await panel.getByRole('heading', { name: OBJECTIVE }).waitFor();
    expect(await costs(panel)).toEqual([dollars(root), dollars(total)]);
    await treeItem(page, /^Price the tide/).click();
    await panel.getByRole('heading', { name: PARTS[1]! }).waitFor();
    expect(await costs(panel)).toEqual([dollars(parts[1]!)]);
    await panel.getByText((3_543 + 5_001 + 7_879).toLocaleString('en'), { exact: true }).waitFor();
    await panel.getByTitle(`${(333 + 1 + 7_778).toLocaleString('en')} of them cached`).waitFor();

    // A development server keeps what each call was sent and answered: with the node, and at the terminal.
    await panel.getByRole('tab', { name: 'Prompts' }).click();
    await panel.getByTestId('prompt').first().click();
    await panel.getByText(/^# Sent: System\n[^]*^# Answer\n/m).waitFor();
    const titles = await panel.getByTestId('prompt').locator('b').allInnerTexts();
    const node = graph.nodes.find((n) => n.title === PARTS[1])!;
    const printed = await gateway.cli('prompts', run, node.id);
    expect([...printed.matchAll(/^---- (.*) · /gm)].map(([, title]) => title)).toEqual(titles);
    expect(titles).toHaveLength(3);

    // The past shows the cost until that moment.
    const used = (await gateway.cli('events', run, '--type', 'tree.usage_recorded', '-o', 'jsonl'))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { seq: number });
    expect(used).toHaveLength(all.length);
    await page.getByLabel('Event of the run').fill(String(used[0]!.seq));
    await until(
      () => shownSeq(page),
      (seq) => seq === used[0]!.seq,
      'the first answer',
    );
    await card(page, OBJECTIVE)
      .getByText(dollars(micros(TOKENS.plan)), { exact: true })
      .waitFor();
    await page.keyboard.press('[');
    await card(page, OBJECTIVE).getByText('$').waitFor({ state: 'detached' });

    await page.goto(`${gateway.url}/runs`);
    await page
      .locator(`[data-run-id="${run}"]`)
      .getByTestId('row-cost')
      .filter({ hasText: dollars(total) })
      .waitFor();
    await close(page);
  });
});
