// Helpers for pages under test.

import { fromBinary } from '@bufbuild/protobuf';
import type { Browser, BrowserContext, BrowserContextOptions, Locator, Page, Request } from 'playwright-core';
import { expect } from 'vitest';
import { WatchRunRequestSchema } from '../src/gen/treeagent/v1/run_service_pb';

/** How long to wait for anything. Machines that run tests are busy. */
const PATIENCE_MS = Number(process.env.PATIENCE_MS ?? 50_000);

export const WIDE = { width: 1440, height: 900 };

/** A page that collects its errors in `problems`; `close` fails the test if there are any. */
export async function open(
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
): Promise<Page & { problems: string[] }> {
  const context = await browser.newContext({
    viewport: WIDE,
    permissions: ['clipboard-read', 'clipboard-write'],
    ...options,
  });
  return openIn(context, url);
}

/** The same in a context, whose pages share connections. `before` runs while the page is still empty. */
export async function openIn(
  context: BrowserContext,
  url: string,
  before?: (page: Page) => Promise<unknown>,
): Promise<Page & { problems: string[] }> {
  const page = (await context.newPage()) as Page & { problems: string[] };
  page.problems = [];
  page.setDefaultTimeout(PATIENCE_MS);
  page.on('pageerror', (e) => page.problems.push(e.message));
  page.on('console', (m) => {
    if (m.type() === 'error' && !m.text().includes('Failed to load resource')) page.problems.push(m.text());
  });
  await before?.(page);
  await page.goto(inGraph(url));
  return page;
}

/** The page of a run opens with its graph, unless the address names a view. By itself it shows an answer at the end. */
function inGraph(url: string): string {
  if (!/\/runs\/[^/?]+/.test(url) || /[?&]view=/.test(url)) return url;
  return `${url}${url.includes('?') ? '&' : '?'}view=graph`;
}

/** Opens what there is to know about the run as a whole. */
export async function details(page: Page): Promise<Locator> {
  const shown = page.getByTestId('run-overview');
  if ((await shown.count()) === 0) await page.getByRole('button', { name: 'Details', exact: true }).click();
  await shown.waitFor();
  return shown;
}

/** Copies a form of what a part of the page shows; without a part, of the run. */
export async function copyAs(page: Page, form: string, where?: Locator): Promise<string> {
  const menu = where?.getByRole('button', { name: 'Copy as', exact: true }).first();
  const before = 'nothing has been copied';
  await page.evaluate((text) => navigator.clipboard.writeText(text), before);
  await (menu ?? page.getByRole('button', { name: 'More about this run' })).click();
  await (where ?? page).locator(`[data-copy="${form}"]`).first().click();
  const read = (): Promise<string> => page.evaluate(() => navigator.clipboard.readText());
  return until(read, (text) => text !== before, `${form} is copied`);
}

export async function close(page: Page & { problems: string[] }): Promise<void> {
  const { problems } = page;
  await page.context().close();
  expect(problems).toEqual([]);
}

/** Answers the dialog that asks for a token. */
export async function signIn(page: Page, token: string): Promise<void> {
  await page.getByLabel('Access token').fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
}

export const connection = (page: Page, state: string) => page.locator(`[data-connection="${state}"]`).waitFor();
export const treeItem = (page: Page, title: string | RegExp) => page.getByRole('treeitem', { name: title });

/** Asks again until the value holds. */
export async function until<T>(
  ask: () => Promise<T>,
  holds: (value: T) => boolean,
  what: string,
  ms = PATIENCE_MS,
): Promise<T> {
  const end = Date.now() + ms;
  for (;;) {
    const value = await ask();
    if (holds(value)) return value;
    if (Date.now() > end) throw new Error(`${what}: still ${JSON.stringify(value)} after ${ms} ms`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

export const shownSeq = async (page: Page): Promise<number> =>
  Number(await page.getByTestId('seq').getAttribute('data-seq'));

/** The statuses of nodes as the tree shows them. */
export async function treeOf(page: Page): Promise<Record<string, string>> {
  return page
    .locator('[role=treeitem]')
    .evaluateAll((items) =>
      Object.fromEntries(items.map((i) => [i.getAttribute('data-node-id')!, i.getAttribute('data-status')!])),
    );
}

/** Resolves when the page has drawn twice, so it has handled the last input. */
export const drawn = (page: Page): Promise<void> =>
  page.evaluate(
    () => new Promise<void>((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => resolve()))),
  );

/** The value of `ask` once it is the same three times in a row. */
export async function settled<T>(ask: () => Promise<T>): Promise<T> {
  let same = 0;
  let last: T = await ask();
  await until(
    ask,
    (value) => {
      same = value === last ? same + 1 : 0;
      last = value;
      return same >= 3;
    },
    'it settles',
  );
  return last;
}

export interface Streams {
  /** The requests of the run's streams. */
  asked: { afterSeq: number; snapshot: boolean }[];
  /** How many documents were watched, and how many were read whole. */
  watched: number;
  read: number;
  /** How many streams are open, and how many were open at most. */
  open: number;
  most: number;
}

/** Counts the streams of a page from now on. */
export function streams(page: Page): Streams {
  const found: Streams = { asked: [], watched: 0, read: 0, open: 0, most: 0 };
  const isStream = (request: Request): boolean => /\/Watch(Run|Document)$/.test(request.url());
  page.on('request', (request) => {
    if (request.url().endsWith('/GetDocument')) found.read += 1;
    if (!isStream(request)) return;
    found.open += 1;
    found.most = Math.max(found.most, found.open);
    if (request.url().endsWith('/WatchDocument')) found.watched += 1;
    else {
      // A frame begins with five bytes: flags and length.
      const { afterSeq, snapshot } = fromBinary(WatchRunRequestSchema, request.postDataBuffer()!.subarray(5));
      found.asked.push({ afterSeq: Number(afterSeq), snapshot });
    }
  });
  const gone = (request: Request): void => void (isStream(request) && (found.open -= 1));
  page.on('requestfinished', gone);
  page.on('requestfailed', gone);
  return found;
}

/** Tells a page that it is in the background, or shown again. */
export const hide = (page: Page): Promise<void> => page.evaluate(setHidden, true);
export const show = (page: Page): Promise<void> => page.evaluate(setHidden, false);

/** The next page is in the background from the start. */
export const beginHidden = (page: Page): Promise<unknown> => page.addInitScript(setHidden, true);

function setHidden(hidden: boolean): void {
  Object.defineProperty(document, 'hidden', { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event('visibilitychange'));
}

/** Opens the options of the question, if they are not. */
export async function openOptions(page: Page): Promise<void> {
  if ((await page.locator('#model').count()) === 0) await page.getByText('Options', { exact: true }).click();
}

export async function chooseModel(page: Page, model: string): Promise<void> {
  await openOptions(page);
  await page.locator('#model').fill(model);
}

export const chooseStrategy = (page: Page, name: string): Promise<void> =>
  page.getByRole('radio', { name: new RegExp(`^${name}`) }).check();

/** Opens the dialog for the context of the question, with its projects. */
export async function openContext(page: Page): Promise<void> {
  await page.getByTestId('ask-context').click();
  await page.getByText('Project context').click();
}

export async function chooseProject(page: Page, name: string): Promise<void> {
  await openContext(page);
  await page.getByRole('checkbox', { name: new RegExp(name) }).check();
  await page.getByRole('button', { name: 'Done' }).click();
}
