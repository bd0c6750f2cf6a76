// Access tokens, against a real gateway that requires them.

import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { launch } from './browser';
import { QUICK } from './quick';
import { Gateway } from './gateway';
import { Issuer } from './issuer';
import { close, connection, open, shownSeq, signIn, treeItem, treeOf, until } from './page';

const issuer = new Issuer();
let gateway: Gateway;
let browser: Browser;

beforeAll(async () => {
  gateway = new Gateway([], await issuer.publish());
  [browser] = await Promise.all([launch(), gateway.start()]);
});
afterAll(async () => {
  await browser?.close();
  await gateway?.stop();
  await issuer.close();
});

const FIRST = 'Sign in';
const AGAIN = 'Sign in again';

describe('a gateway that requires tokens', () => {
  it('shows nothing without one, says why one is refused, and shows everything with a valid one', QUICK, async () => {
    const run = await gateway.run('Only for those who may', 'scripted:fanout=1,depth=0');
    const page = await open(browser, `${gateway.url}/runs`);
    await page.getByRole('dialog', { name: FIRST, exact: true }).waitFor();
    expect(await page.getByText('Only for those who may').count()).toBe(0);
    const refusal = page.getByTestId('token-refusal');
    await refusal.filter({ hasText: 'this gateway asks for a token' }).waitFor();
    await signIn(page, 'no-token-at-all');
    await refusal.filter({ hasText: 'the token is not accepted' }).waitFor();
    await signIn(page, issuer.token('ann', 600));
    await page.locator(`[data-run-id="${run}"]`).waitFor();
    await close(page);
  });

  it('lets a page continue without a gap, with a new token after the old one has expired', async () => {
    const run = await gateway.run('Watched for long', 'scripted:fanout=3,depth=2,latency_ms=3000');
    const page = await open(browser, `${gateway.url}/runs/${run}`);
    await signIn(page, issuer.token('ann', 6));
    await connection(page, 'live');
    await treeItem(page, /^Watched for long/).waitFor();
    await page.getByRole('dialog', { name: AGAIN }).waitFor();
    await page.getByTestId('token-refusal').filter({ hasText: 'the token has expired' }).waitFor();
    const seen = await shownSeq(page);
    expect(seen).toBeGreaterThan(0);
    // Meanwhile the run continues. The page, which has no access, shows what it has.
    await until(
      () => gateway.graph(run),
      (graph) => graph.seq > seen,
      'the run goes on',
      60_000,
    );
    expect(await shownSeq(page)).toBe(seen);
    await signIn(page, issuer.token('ann', 600));
    await until(
      () => shownSeq(page),
      (seq) => seq > seen,
      'it goes on',
    );
    await connection(page, 'ended');
    const graph = await gateway.graph(run);
    expect(graph.status).toBe('completed');
    expect(await shownSeq(page)).toBe(graph.seq);
    expect(await treeOf(page)).toEqual(Object.fromEntries(graph.nodes.map((node) => [node.id, node.status])));
    await page.keyboard.press('e');
    await until(
      () => page.getByTestId('event-rows').getAttribute('data-count'),
      (n) => n === String(graph.seq),
      'every event is there, once',
    );
    await close(page);
  });

  it('shows a project to those with whom it is shared, and lets only the owner of a run steer it', QUICK, async () => {
    const { project } = JSON.parse(await gateway.rpc('ProjectService/CreateProject', '{"name":"Harbour papers"}')) as {
      project: { projectId: string };
    };
    const run = await gateway.run('Waits', 'scripted:fanout=2,depth=1,latency_ms=60000', '--project', 'Harbour papers');
    const of = async (user: string, path: string) => {
      const page = await open(browser, `${gateway.url}${path}`);
      await signIn(page, issuer.token(user, 600));
      return page;
    };
    const stranger = await of('bob', `/projects/${project.projectId}`);
    await stranger.getByText('Project not found').waitFor();
    await close(stranger);

    const page = await of('ann', `/projects/${project.projectId}`);
    await page.getByRole('button', { name: 'More about this project' }).click();
    await page.getByRole('button', { name: 'Members…' }).click();
    const members = page.getByTestId('members');
    await members.getByText('ann (you)').waitFor();
    await page.getByLabel('Share with').fill('bob');
    await page.getByRole('button', { name: 'Share', exact: true }).click();
    await members.getByText('bob').waitFor();
    // The last owner stays one.
    await page.getByRole('button', { name: 'Remove ann' }).click();
    await page.getByText('is the last owner of the project').waitFor();
    await close(page);

    const reader = await of('bob', `/projects/${project.projectId}`);
    await reader.getByRole('heading', { name: 'Harbour papers' }).waitFor();
    expect(await reader.getByRole('button', { name: 'Add files' }).count()).toBe(0);
    await close(reader);
    const watcher = await of('bob', `/runs/${run}?view=graph`);
    await watcher.getByTestId('owner').filter({ hasText: 'ann' }).waitFor();
    await treeItem(watcher, /^Waits/).waitFor();
    expect(await watcher.getByTestId('run-commands').count()).toBe(0);
    await close(watcher);
    const owner = await of('ann', `/runs/${run}?view=graph`);
    await owner.getByTestId('run-commands').waitFor();
    await close(owner);
  });
});
