// What every view shows while it has no content: loading, nothing there yet, or an error. A real gateway,
// whose answers are delayed or lost on the way.

import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { launch } from './browser';
import { Gateway, type GraphJson } from './gateway';
import { chooseModel, close, connection, open, openContext, treeItem, until } from './page';

const gateway = new Gateway();
let browser: Browser;
/** A run that has ended, with a node that failed. */
let done: string;
let graph: GraphJson;

beforeAll(async () => {
  [browser] = await Promise.all([launch(), gateway.start()]);
  done = await gateway.run(
    'Have all kinds',
    'scripted:fanout=2,depth=1,artifacts=document,fail=rejected,fail_titles=s1',
  );
  graph = await until(
    () => gateway.graph(done),
    (g) => g.status === 'completed',
    'the run ends',
  );
});
afterAll(async () => {
  await browser?.close();
  await gateway.stop();
});

/** Delays the answers of a method until the returned function is called. */
async function hold(page: Page, method: string): Promise<() => Promise<void>> {
  let go = (): void => {};
  const held = new Promise<void>((resolve) => (go = resolve));
  await page.route(`**/treeagent.v1.${method}`, async (route) => {
    await held;
    await route.continue().catch(() => {});
  });
  return async () => go();
}

/** Lets calls of a method fail until the returned function is called. */
async function lose(page: Page, method: string): Promise<() => Promise<void>> {
  const pattern = `**/treeagent.v1.${method}`;
  await page.route(pattern, (route) => route.abort('connectionrefused'));
  return () => page.unroute(pattern);
}

const empty = async (): Promise<Page & { problems: string[] }> => open(browser, 'about:blank');
const LOST = 'The gateway does not answer';

describe('a run', () => {
  it.each([1440, 360])(
    'shows at %d px that it loads and that the gateway does not answer, and recovers by itself',
    async (width) => {
      const page = await empty();
      await page.setViewportSize({ width, height: 740 });
      const answer = await hold(page, 'RunService/GetGraph');
      await page.goto(`${gateway.url}/runs/${done}`);
      await page.getByRole('status').filter({ hasText: 'Loading the run' }).waitFor();
      await answer();
      await connection(page, 'ended');
      await page.getByText('Loading the run').waitFor({ state: 'detached' });
      await page.unrouteAll({ behavior: 'ignoreErrors' });

      const found = await lose(page, 'RunService/*');
      await page.goto(`${gateway.url}/runs/${done}`);
      await page.getByRole('status').filter({ hasText: 'Loading the run' }).getByText(LOST).waitFor();
      await page.locator('[data-connection="reconnecting"], [data-connection="stale"]').waitFor();
      await connection(page, 'stale');
      await page.getByRole('button', { name: 'Try now' }).waitFor();
      await found();
      await connection(page, 'ended');
      await page.keyboard.press('t');
      await treeItem(page, /^s0,/).waitFor();
      await close(page);
    },
  );

  it.each([1440, 360])('shows at %d px that it waits for its first node', async (width) => {
    const page = await open(browser, `${gateway.url}/runs/${done}?seq=1`, { viewport: { width, height: 740 } });
    await page.getByText('Waiting for the first node').waitFor();
    await page.keyboard.press('t');
    for (let seq = 1; (await page.getByRole('treeitem').count()) === 0 && seq < 10; seq++)
      await page.keyboard.press(']');
    await treeItem(page, /^Have all kinds/).waitFor();
    await page.getByText('Waiting for the first node').waitFor({ state: 'detached' });
    await close(page);
  });

  it('shows that its past loads, why it cannot be loaded, and recovers by itself', async () => {
    const leaf = graph.nodes.find((n) => n.title === 's0')!;
    const page = await empty();
    const answer = await hold(page, 'RunService/ListEvents');
    await page.goto(`${gateway.url}/runs/${done}?seq=10`);
    await page.getByRole('heading', { name: 'Loading the past' }).waitFor();
    await page.goto(`${gateway.url}/runs/${done}?node=${leaf.id}`);
    for (const [tab, text] of [
      ['Timeline', 'Loading events'],
      ['Tools', 'Loading tool calls'],
    ] as const) {
      await page.getByRole('tab', { name: tab }).click();
      await page.getByText(text, { exact: true }).waitFor();
    }
    await page.keyboard.press('e');
    await page.getByText('Loading events…').waitFor();
    await answer();
    await page.getByTestId('event-rows').locator('.event').first().waitFor();
    await page.unrouteAll({ behavior: 'ignoreErrors' });

    const found = await lose(page, 'RunService/ListEvents');
    await page.goto(`${gateway.url}/runs/${done}?node=${leaf.id}&tab=timeline`);
    await page.getByRole('alert').filter({ hasText: LOST }).waitFor();
    await page.getByRole('tab', { name: 'Tools' }).click();
    await page.getByRole('alert').filter({ hasText: LOST }).waitFor();
    await page.keyboard.press('e');
    await page.getByTestId('event-rows').getByText(LOST).waitFor();
    await found();
    // It recovers by itself.
    await page.getByTestId('event-rows').locator('.event').first().waitFor();
    expect(await page.getByTestId('event-rows').getAttribute('data-count')).toBe(String(graph.seq));
    await close(page);
  });
});

describe('a node', () => {
  it('says in every tab that there is no content', async () => {
    const page = await open(browser, `${gateway.url}/runs/${done}`);
    await connection(page, 'ended');
    await treeItem(page, /^s1,/).click();
    const panel = page.getByTestId('node-panel');
    for (const [tab, text] of [
      ['Plan', 'No plan'],
      ['Tools', 'No tool calls'],
      ['Result', 'No result yet'],
    ] as const) {
      await page.getByRole('tab', { name: tab }).click();
      await panel.getByRole('heading', { name: text }).waitFor();
    }
    const created = (await gateway.cli('events', done, '--node', graph.nodes.at(-1)!.id, '-o', 'jsonl')).split(
      '\n',
    )[0]!;
    await page.getByLabel('Event of the run').fill(String((JSON.parse(created) as { seq: number }).seq));
    await page.getByRole('tab', { name: 'Scratchpad' }).click();
    await panel.getByText('Nothing had been written yet').waitFor();
    await page.getByRole('button', { name: 'One event back' }).click();
    await page.getByText('The node did not exist yet at this moment of the run').waitFor();
    await page.getByRole('button', { name: 'Back to live' }).click();
    await panel.getByRole('heading', { name: 's1', level: 2 }).waitFor();
    await page.keyboard.press('e');
    await page.getByLabel('Event type').selectOption('tree.tool_call_requested');
    await page.getByText('No matching events').waitFor();
    await page.keyboard.press('e');
    await page.getByRole('searchbox').fill('nothing has this');
    await page.getByTestId('match-count').filter({ hasText: '0 matches' }).waitFor();
    await close(page);
  });

  it('shows that a document loads and why it cannot be loaded, and tries again on request', async () => {
    const page = await empty();
    const answer = await hold(page, 'DocumentService/GetDocument');
    const node = graph.nodes.find((n) => n.title === 's0')!;
    const url = `${gateway.url}/runs/${done}?node=${node.id}&tab=scratchpad`;
    await page.goto(url);
    await page.getByText('Loading the document').waitFor();
    await answer();
    await page.getByTestId('scratchpad').getByText('scripted: executed').waitFor();
    await page.unrouteAll({ behavior: 'ignoreErrors' });
    const found = await lose(page, 'DocumentService/GetDocument');
    await page.goto(url);
    await page.getByTestId('scratchpad').getByRole('alert').filter({ hasText: LOST }).waitFor();
    await found();
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.getByTestId('scratchpad').getByText('scripted: executed').waitFor();
    await close(page);
  });
});

describe('the forms', () => {
  it('show that projects load, that there are none, and why they cannot be loaded', async () => {
    const page = await empty();
    const answer = await hold(page, 'ProjectService/ListProjects');
    await page.goto(`${gateway.url}/runs?new=1`);
    await openContext(page);
    const list = page.getByRole('group', { name: 'Projects', exact: true });
    await list.getByText('Loading projects…').waitFor();
    await answer();
    await list.getByText('There are no active projects').waitFor();
    await page.getByLabel('Project', { exact: true }).fill('nothing has this');
    await list.getByText('No project has a matching name').waitFor();
    await page.unrouteAll({ behavior: 'ignoreErrors' });
    const found = await lose(page, 'ProjectService/ListProjects');
    await page.getByLabel('Project', { exact: true }).fill('');
    await list.getByText(LOST).waitFor();
    await found();
    await page.getByLabel('Project', { exact: true }).fill('x');
    await list.getByText('No project has a matching name').waitFor();
    await close(page);
  });

  it('keep their content when a run cannot be started or stopped, and say why', async () => {
    const page = await empty();
    const found = await lose(page, 'RunService/CreateRun');
    await page.goto(`${gateway.url}/runs?new=1`);
    await page.locator('#objective').fill('Started in the end');
    await chooseModel(page, 'scripted:fanout=2,depth=1,latency_ms=600000');
    await page.getByRole('button', { name: 'Start run' }).click();
    await page.getByRole('alert').waitFor();
    expect(await page.locator('#objective').inputValue()).toBe('Started in the end');
    await found();
    await page.getByRole('button', { name: 'Start run' }).click();
    await page.waitForURL('**/runs/*');
    await connection(page, 'live');
    await page.getByTestId('run-commands').getByRole('button', { name: 'Stop' }).click();
    await page.locator('[data-testid=preview][data-phase=ready]').waitFor();
    const back = await lose(page, 'RunService/StopNode');
    await page.getByTestId('confirm').click();
    await page.getByRole('dialog').getByRole('alert').filter({ hasText: LOST }).waitFor();
    await back();
    await page.getByRole('button', { name: 'Repeat' }).click();
    await connection(page, 'ended');
    await close(page);
  });

  it('say that their code cannot be loaded, and can be left', async () => {
    const page = await open(browser, `${gateway.url}/runs/${done}`);
    await connection(page, 'ended');
    await page.route('**/SteeringDialogs-*.js', (route) => route.abort('connectionrefused'));
    await page.keyboard.press('k');
    await page.getByRole('dialog', { name: 'Not available' }).getByText(LOST).waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await close(page);
  });

  it('show the error of an unusable model beside its field', async () => {
    const page = await open(browser, `${gateway.url}/runs?new=1`);
    await page.locator('#objective').fill('Ask nobody');
    await chooseModel(page, 'nobody:knows');
    await page.getByRole('button', { name: 'Start run' }).click();
    await page.locator('#model-problem').filter({ hasText: 'nobody' }).waitFor();
    await close(page);
  });
});
