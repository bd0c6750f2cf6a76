// Commands, against a real gateway with a fake model: each by mouse and by keyboard, with a second page that watches.

import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { launch } from './browser';
import { QUICK } from './quick';
import { Gateway } from './gateway';
import { aggregated, direct, executed, LanguageModel } from './language-model';
import { chooseModel, close, connection, open, treeItem, until } from './page';
import { confirm, KEYBOARD, MOUSE, type Hand } from './steer';

const BANDS = [
  ['North shore', 'South shore'],
  ['East shore', 'West shore'],
];
const step = (title: string) => ({
  id: title.slice(0, 5).toLowerCase(),
  title,
  reason: 'It is a shore.',
  successCriteria: ['It is walked.'],
});
const PLAN = {
  summary: 'Walk all shores.',
  bands: BANDS.map((titles, i) => ({ goal: `walk ${i + 1}`, parallelizable: i === 0, steps: titles.map(step) })),
};

/** What the executors were asked, and what keeps them from answering. */
const asked: string[] = [];
let release = (): void => {};
let held: Promise<void> = Promise.resolve();
const hold = (): void => void (held = new Promise((resolve) => (release = resolve)));

const model = new LanguageModel(async ({ role, said }) => {
  if (role === 'planner') {
    if (/(North|South|East|West|Far) (shore|reef)/.test(said.slice(said.lastIndexOf('"user"'))))
      return direct('One walk.');
    return {
      json: {
        decision: {
          mode: 'plan',
          modeReason: 'There are several shores.',
          scratchpad: { appendMarkdown: 'Shores.' },
          plan: PLAN,
        },
        ...(said.includes('"review"')
          ? { review: { assumptions: ['It is low tide.', 'There is a path.'], leftOut: ['The reef.'] } }
          : {}),
      },
    };
  }
  if (role === 'aggregator') return aggregated('All shores are walked.');
  asked.push(said);
  await held;
  return executed('Walked.', '# Walked');
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

const notice = (page: Page, text: RegExp): Promise<void> =>
  page.getByTestId('command-notice').filter({ hasText: text }).waitFor();
const HANDS: [string, Hand][] = [
  ['by mouse', MOUSE],
  ['by keyboard', KEYBOARD],
];

it('shows what a plan rests on, strikes an assumption, and starts the run', QUICK, async () => {
  const objective = 'Walk around once more';
  const page = await open(browser, `${gateway.url}/runs`);
  await page.locator('#objective').fill(objective);
  await chooseModel(page, 'llm');
  await page.getByRole('checkbox', { name: /^Review the plan/ }).check();
  await page.getByRole('button', { name: 'Start run' }).click();
  const review = page.getByTestId('review');
  await review.waitFor();
  expect(await review.innerText()).toMatch(/The reef\.[^]*At most 1,000 nodes, [\d,]+ calls/);
  await treeItem(page, /^North shore, Waiting/).waitFor();
  expect(asked.some((said) => said.includes(objective))).toBe(false);
  await review.getByRole('checkbox', { name: 'It is low tide.' }).uncheck();
  await review.getByRole('button', { name: 'Start' }).click();
  await page.getByRole('banner').locator('.pill', { hasText: 'Completed' }).waitFor();
  expect(await review.count()).toBe(0);
  const told = asked.filter((said) => said.includes(objective) && said.includes('Do not assume this: It is low tide.'));
  expect(told.length).toBe(4);
  await close(page);
});

describe.each(HANDS)('a person %s', (name, hand) => {
  it('pauses, resumes, guides, edits the plan, sets a budget, stops and retries for all pages', QUICK, async () => {
    hold();
    const objective = `Walk around the island ${name}`;
    const calls = (): string[] => asked.filter((said) => said.includes(objective));
    const run = await gateway.run(objective, 'llm');
    const [page, second] = await Promise.all([
      open(browser, `${gateway.url}/runs/${run}`),
      open(browser, `${gateway.url}/runs/${run}`),
    ]);
    await treeItem(page, /^South shore, Executing/).waitFor();
    await until(
      async () => calls().length,
      (n) => n === 2,
      'both are at work',
    );

    await hand.press(page, '[data-testid=run-commands] [data-command=pause]');
    await page.getByTestId('toast').getByText('The run is paused.').waitFor();
    await second.getByRole('banner').locator('.pill', { hasText: 'Paused' }).waitFor();
    await notice(second, /Walk around the island .* paused by /);
    await treeItem(second, /^Walk around the island .*, Waiting, planner, paused/).waitFor();
    await treeItem(second, /^North shore, Executing, executor, paused above/).waitFor();
    await hand.press(page, '[data-testid=run-commands] [data-command=resume]');
    await second.getByRole('banner').locator('.pill', { hasText: 'Running' }).waitFor();

    await hand.choose(page, /^South shore/);
    await hand.press(page, '[data-testid=node-commands] [aria-label="More commands"]');
    await hand.press(page, '[data-testid=node-commands] [data-command=ask-pause]');
    await hand.tick(page.getByRole('dialog').getByRole('checkbox', { name: /^Stop calls in flight/ }));
    await confirm(page, hand);
    await treeItem(second, /^South shore, .*, paused$/).waitFor();
    await hand.press(page, '[data-testid=node-commands] [data-command=resume]');
    await treeItem(second, /^South shore, Executing, executor$/).waitFor();

    await hand.choose(page, /^North shore/);
    await hand.press(page, '[data-testid=node-commands] [data-command=guide]');
    await page.locator('#guidance:focus').waitFor();
    await page.keyboard.type('Mind the tide tables.');
    await hand.tick(page.getByRole('dialog').getByRole('checkbox', { name: /^Restart the call/ }));
    expect(await confirm(page, hand)).toMatch(/stops 1 call in flight, about 1 call \(1 execute\)/);
    await until(
      async () => calls().length,
      (n) => n === 4,
      'the call is made again',
    );
    await notice(second, /North shore guidance by .*: Mind the tide tables\./);

    await hand.choose(page, /^Walk around the island/);
    await hand.press(page, '[data-testid=node-commands] [data-command=plan]');
    const dialog = page.getByRole('dialog', { name: 'Edit the plan' });
    await dialog.waitFor();
    expect(await dialog.locator('[data-locked=true]').allInnerTexts()).toEqual([
      expect.stringContaining('North shore'),
      expect.stringContaining('South shore'),
    ]);
    await hand.moveUp(page, 'West shore', 'East shore');
    await dialog.getByText('West shore is step 1 of 2 in band 2.').waitFor();
    await hand.press(page, 'dialog [aria-label="Remove East shore"]');
    await hand.press(page, 'dialog section:nth-child(2) > button');
    await hand.reach(dialog.getByLabel('Title of step 2 of band 2'));
    await page.keyboard.type('Far reef');
    // Of two people who edit one plan, the second does not undo what the first has done.
    await MOUSE.choose(second, /^Walk around the island/);
    await MOUSE.press(second, '[data-testid=node-commands] [data-command=plan]');
    await second.getByLabel('Summary').fill('Walk the other way round.');
    await second.locator('[data-testid=preview][data-phase=ready]').waitFor();
    await confirm(page, hand);
    await notice(second, /plan edited by /);
    await second.getByText('The plan has changed since you opened it.').waitFor();
    expect(await second.getByTestId('confirm').isDisabled()).toBe(true);
    await second.getByRole('dialog').getByRole('button', { name: 'Close', exact: true }).last().click();
    await treeItem(second, /^Walk around the island/).click();
    await second.getByRole('tab', { name: 'Plan' }).click();
    await second.getByTestId('node-panel').getByText('Version 2').waitFor();
    await until(
      () => second.getByTestId('node-panel').locator('.band').nth(1).locator('.title').allInnerTexts(),
      (titles) => titles.join() === 'West shore,Far reef',
      'the new plan',
    );

    await hand.press(page, '[data-testid=run-commands] [data-command=budget]');
    const nodes = page.getByRole('dialog').getByLabel('Nodes', { exact: true });
    await hand.reach(nodes);
    // What holds already is refused, and the dialog says so.
    await page.keyboard.type((await nodes.getAttribute('placeholder'))!);
    await page.getByRole('dialog').getByText('already have these values').waitFor();
    await nodes.press('Control+a');
    await page.keyboard.type('40');
    await confirm(page, hand);
    await notice(second, /budget set by .*: nodes 40/);

    await hand.choose(page, /^South shore/);
    await hand.press(page, '[data-testid=node-commands] [data-command=budget]');
    await hand.reach(
      page.getByRole('dialog', { name: 'Budget of this subtree' }).getByLabel('Tokens', { exact: true }),
    );
    await page.keyboard.type('900000');
    await confirm(page, hand);
    await notice(second, /South shore budget set by .*: tokens 900,000/);
    await treeItem(second, /^South shore/).click();
    await second.getByRole('tab', { name: 'Overview' }).click();
    await second.getByTestId('lease').waitFor();
    expect(await second.getByTestId('lease').innerText()).toMatch(/ of 900K$/i);

    // Stopped at once, it can be taken back; discarding asks.
    await hand.press(page, '[data-testid=node-commands] [data-command=stop]');
    await treeItem(second, /^South shore, Executing, executor, paused$/).waitFor();
    await hand.press(page, '[data-testid=toast] button');
    await treeItem(second, /^South shore, Executing, executor$/).waitFor();
    await hand.press(page, '[data-testid=node-commands] [aria-label="More commands"]');
    await hand.press(page, '[data-testid=node-commands] [data-command=ask-stop]');
    await hand.tick(page.getByRole('dialog').getByRole('radio', { name: /^Discard/ }));
    await confirm(page, hand);
    await treeItem(second, /^South shore, Cancelled, executor, stopped/).waitFor();
    await hand.press(page, '[data-testid=node-commands] [data-command=retry]');
    await page.locator('#guidance:focus').waitFor();
    await page.keyboard.type('Begin at the pier.');
    expect(await confirm(page, hand)).toMatch(/Re-runs \d nodes?, .*about \d calls?/);
    await treeItem(second, /^South shore, Executing, executor, reopened$/).waitFor();
    await until(
      async () => calls().length,
      (n) => n === 5,
      'it begins again',
    );

    // Who did what stands in the timeline.
    await second.getByRole('tab', { name: 'Timeline' }).click();
    await treeItem(second, /^South shore/).click();
    const timeline = second.getByTestId('node-panel').getByRole('tabpanel');
    for (const words of [
      /^paused by /,
      /^resumed by /,
      /^stopped by .*; the existing results are discarded/,
      /^to be done again by .* \(generation 1\)/,
      /^guidance by .*: Begin at the pier\./,
    ])
      await timeline.getByText(words).first().waitFor();

    await hand.press(page, '[data-testid=run-commands] [data-command=stop]');
    await page.getByRole('dialog', { name: 'Stop this run?' }).waitFor();
    await confirm(page, hand);
    release();
    await Promise.all([connection(page, 'ended'), connection(second, 'ended')]);
    await close(page);
    await close(second);
  });
});

// A browser says that a dialog was closed in a task of its own. A key may come before, and has opened the next one
// then.
it('the dialog that a key opens stays when the one before says that it was closed', async () => {
  hold();
  const run = await gateway.run('Walk on and on', 'llm');
  const page = await open(browser, `${gateway.url}/runs/${run}`);
  await connection(page, 'live');
  await page.locator('[data-card]').first().waitFor();
  await page.keyboard.press('g');
  await page.getByRole('dialog', { name: 'Guide this node' }).waitFor();
  await page.evaluate(
    () =>
      new Promise<void>((said) => {
        const guide = document.querySelector<HTMLDialogElement>('dialog[open]');
        guide?.addEventListener('close', () => setTimeout(said));
        guide?.close();
        document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'x', bubbles: true }));
      }),
  );
  expect(await page.getByRole('dialog', { name: 'Stop this run?' }).count()).toBe(1);
  await close(page);
  release();
});

it('a branch that was stopped is stopped for good when nobody takes it back', async () => {
  hold();
  const run = await gateway.run('Walk and turn back', 'llm');
  const page = await open(browser, `${gateway.url}/runs/${run}`);
  await treeItem(page, /^South shore, Executing/).click();
  await page.locator('[data-testid=node-commands] [data-command=stop]').click();
  await treeItem(page, /^South shore, Executing, executor, paused$/).waitFor();
  // Another message takes the place of the one that offers to undo it.
  await page.keyboard.press('p');
  await treeItem(page, /^South shore, .*, stopped$/).waitFor();
  release();
  await close(page);
});
