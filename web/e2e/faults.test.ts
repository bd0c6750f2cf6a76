// What a real gateway does not do on demand: a run that waits for its first node while it is watched. Against a gateway that
// replays generated logs, with the real one's Content-Security-Policy.

import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, it } from 'vitest';
import { launch } from './browser';
import { Log, runId } from './logs';
import { MockGateway } from './mock';
import { close, open } from './page';

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
