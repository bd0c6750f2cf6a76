// The form for a new run, against a real gateway: what happens when an answer is lost, and on pages without HTTPS.

import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { launch } from './browser';
import { Gateway } from './gateway';
import { close, open } from './page';

/** A name that is not localhost: over plain HTTP the browser takes its pages for insecure ones. */
const HOST = 'trees.example';

const gateway = new Gateway([], { TREE_AGENT_HOSTS: HOST });
let browser: Browser;

beforeAll(async () => {
  [browser] = await Promise.all([launch(`--host-resolver-rules=MAP ${HOST} 127.0.0.1`), gateway.start()]);
});
afterAll(async () => {
  await browser?.close();
  await gateway.stop();
});

/** Lets a request through, and cuts its answer off. */
async function cutAnswers(page: Page, method: string): Promise<() => Promise<void>> {
  const pattern = `**/treeagent.v1.${method}`;
  await page.route(pattern, async (route) => {
    await route.fetch();
    await route.abort('connectionreset');
  });
  return () => page.unroute(pattern);
}

async function runsAbout(objective: string): Promise<string[]> {
  const { runs = [] } = JSON.parse(await gateway.rpc('RunService/ListRuns', JSON.stringify({ objectiveContains: objective }))) as { runs?: { runId: string }[] };
  return runs.map((run) => run.runId);
}

const start = (page: Page): Promise<void> => page.getByRole('button', { name: 'Start run' }).click();

describe('a new run whose answer is lost', () => {
  it('is not started twice', async () => {
    const page = await open(browser, `${gateway.url}/runs?new=1`);
    const restore = await cutAnswers(page, 'RunService/CreateRun');
    await page.getByLabel('Objective', { exact: true }).fill('Only once');
    await page.getByLabel('Model').fill('offline');
    for (let tries = 0; tries < 2; tries++) {
      await start(page);
      await page.getByRole('alert').filter({ hasText: 'it will not start twice' }).waitFor();
      await page.getByRole('button', { name: 'Start run' }).and(page.locator(':enabled')).waitFor();
    }
    const [run, ...others] = await runsAbout('Only once');
    expect(others).toEqual([]);
    await restore();
    await start(page);
    await page.waitForURL(`**/runs/${run}`);
    expect(await runsAbout('Only once')).toEqual([run]);
    await close(page);
  });

  it('is another run when the form was changed', async () => {
    const page = await open(browser, `${gateway.url}/runs?new=1`);
    const restore = await cutAnswers(page, 'RunService/CreateRun');
    await page.getByLabel('Objective', { exact: true }).fill('First thought');
    await page.getByLabel('Model').fill('offline');
    await start(page);
    await page.getByRole('alert').waitFor();
    await restore();
    await page.getByLabel('Objective', { exact: true }).fill('Second thought');
    await start(page);
    await page.waitForURL('**/runs/*');
    const [first, second] = [await runsAbout('First thought'), await runsAbout('Second thought')];
    expect([first.length, second.length]).toEqual([1, 1]);
    expect(page.url()).toContain(second[0]!);
    await close(page);
  });
});

describe('a page over plain HTTP', () => {
  it('can start a run', async () => {
    const page = await open(browser, `${gateway.url.replace('127.0.0.1', HOST)}/runs?new=1`, { permissions: [] });
    expect(await page.evaluate(() => [isSecureContext, typeof crypto.randomUUID])).toEqual([false, 'undefined']);
    await page.getByLabel('Objective', { exact: true }).fill('From an insecure page');
    await page.getByLabel('Model').fill('offline');
    await start(page);
    await page.waitForURL('**/runs/*');
    expect(await runsAbout('From an insecure page')).toHaveLength(1);
    await close(page);
  });
});
