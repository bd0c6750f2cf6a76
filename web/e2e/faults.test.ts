// What a real gateway does not do on demand: a run that waits for its first node while it is watched, and commands that
// get no answer or that something else overtakes. Against a gateway that replays generated logs, with the real one's
// Content-Security-Policy.

import { Code, ConnectError } from '@connectrpc/connect';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { NodeStatus } from '../src/gen/treeagent/v1/common_pb';
import type { PauseRunRequest } from '../src/gen/treeagent/v1/steering_pb';
import { launch } from './browser';
import { Log, runId } from './logs';
import { MockGateway } from './mock';
import { close, connection, open } from './page';

const gateway = new MockGateway();
let browser: Browser;
let url: string;

beforeAll(async () => {
  [browser, url] = await Promise.all([launch(), gateway.listen()]);
});
afterAll(async () => {
  await browser?.close();
  await gateway.close();
});

describe('a run that has no node yet', () => {
  it('shows that it waits, and shows the first node when it arrives', async () => {
    const log = gateway.add(new Log(runId(100)));
    const page = await open(browser, `${url}/runs/${log.run}`);
    await page.getByText('Waiting for the first node').waitFor();
    log.node(-1, 'The first one');
    gateway.publish();
    await page.getByRole('treeitem', { name: /The first one/ }).waitFor();
    await page.getByText('Waiting for the first node').waitFor({ state: 'detached' });
    await close(page);
  });
});

describe('a proxy that holds streams back', () => {
  it('is found out: the page asks for news instead, says so, and shows the end', async () => {
    gateway.holdsBack = true;
    const log = gateway.add(new Log(runId(102)));
    const root = log.node(-1, 'The root');
    const page = await open(browser, `${url}/runs/${log.run}`);
    await connection(page, 'polling');
    await page.getByText('Asks every 2 s').waitFor();
    log.node(root, 'A late child');
    await page.getByRole('treeitem', { name: /A late child/ }).waitFor();
    log.done(root);
    log.end();
    await connection(page, 'ended');
    gateway.holdsBack = false;
    await close(page);
  });
});

describe('a command', () => {
  it('can be repeated safely when no driver answers, and is previewed again when something came first', async () => {
    const log = gateway.add(new Log(runId(101)));
    const root = log.node(-1, 'The root');
    log.status(root, NodeStatus.EXECUTING);
    const asked: PauseRunRequest[] = [];
    const answers = [
      new ConnectError('node 1 has changed with event 5, after event 4', Code.Aborted),
      new ConnectError('no driver answered', Code.Unavailable),
    ];
    gateway.pause = (request) => {
      if (request.validateOnly)
        return { preview: { seq: BigInt(log.head), nodeCount: 1, reusedNodes: 3, notes: ['One call goes on.'] } };
      asked.push(request);
      const answer = answers.shift();
      if (answer !== undefined) {
        log.status(root, NodeStatus.EXECUTING, 'something else');
        gateway.publish();
        throw answer;
      }
      log.add(root, { case: 'nodePaused', value: { author: 'ann', requestId: request.requestId } });
      gateway.publish();
      return { seq: BigInt(log.head) };
    };
    const page = await open(browser, `${url}/runs/${log.run}`);
    await page.getByRole('treeitem', { name: /The root/ }).click();
    await page.getByRole('button', { name: 'More commands' }).click();
    await page.locator('[data-command=ask-pause]').click();
    const dialog = page.getByRole('dialog', { name: 'Pause this run?' });
    await dialog.getByText('Concerns 1 node, no calls; reuses 3.').waitFor();
    await dialog.getByText('One call goes on.').waitFor();
    await dialog.getByTestId('confirm').click();
    await dialog.getByRole('alert').filter({ hasText: 'has changed with event 5' }).waitFor();
    await dialog.locator('[data-phase=ready][data-seq="5"]').waitFor();
    await dialog.getByTestId('confirm').click();
    await dialog.getByRole('alert').filter({ hasText: 'it will not be done twice' }).waitFor();
    expect(await dialog.getByRole('checkbox').isDisabled()).toBe(true);
    await dialog.getByRole('button', { name: 'Repeat' }).click();
    await dialog.waitFor({ state: 'detached' });
    await page.getByTestId('command-notice').filter({ hasText: 'paused by ann' }).waitFor();
    await page.getByRole('treeitem', { name: /The root, .*paused/ }).waitFor();
    // The repeated command is the same one; the one before was another.
    expect(asked.map(({ expectedSeq }) => expectedSeq)).toEqual([4n, 5n, 5n]);
    const [first, second, third] = asked.map(({ requestId }) => requestId);
    expect(second).toBe(third);
    expect(first).not.toBe(second);
    await close(page);
  });
});
