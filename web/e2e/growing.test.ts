// The graph of a run that grows: what a follower sees, and what a gesture changes.

import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { launch } from './browser';
import { Gateway } from './gateway';
import { close, connection, drawn, openIn, until, WIDE } from './page';
import { QUICK } from './quick';

const gateway = new Gateway();
let browser: Browser;
beforeAll(async () => {
  [browser] = await Promise.all([launch(), gateway.start()]);
});
afterAll(async () => {
  await browser?.close();
  await gateway.stop();
});

/** A moment at which the graph was drawn: how many nodes were active, and how many of them were in view. */
interface Seen {
  seen: number;
  active: number;
}

/** A page that records what each of its frames shows. */
async function watched(run: string): Promise<{ page: Page & { problems: string[] }; frames: () => Promise<Seen[]> }> {
  const context = await browser.newContext({ viewport: WIDE });
  const page = await openIn(context, `${gateway.url}/runs/${run}`, (empty) =>
    empty.addInitScript(() => {
      const frames: { seen: number; active: number }[] = [];
      Object.assign(globalThis, {
        frames,
        treeAgentProbe: (moment: string, seen: number, active: number) =>
          void (moment === 'active' && frames.push({ seen, active })),
      });
    }),
  );
  return { page, frames: () => page.evaluate(() => (globalThis as unknown as { frames: Seen[] }).frames) };
}

describe('a follower', () => {
  it('sees four of five active nodes of a growing tree of 85 at every moment', QUICK, async () => {
    const run = await gateway.run('Grow to eighty-five', 'scripted:fanout=4,depth=3,latency_ms=1000,tools=1');
    const { page, frames } = await watched(run);
    await connection(page, 'ended');
    expect((await gateway.graph(run)).nodes).toHaveLength(85);
    const all = (await frames()).filter(({ active }) => active > 0);
    expect(all.length).toBeGreaterThan(30);
    expect(Math.max(...all.map(({ active }) => active))).toBeGreaterThan(50);
    for (const { seen, active } of all) expect(seen / active).toBeGreaterThanOrEqual(0.8);
    await close(page);
  });

  it('keeps the view after a gesture, and follows again on request', async () => {
    const run = await gateway.run('Grow on and on', 'scripted:fanout=3,depth=2,latency_ms=1200');
    const { page } = await watched(run);
    const graph = page.getByTestId('graph');
    await page.locator('[data-card]').first().waitFor();
    expect(await graph.getAttribute('data-following')).toBe('true');
    await graph.hover();
    await page.mouse.wheel(0, -120);
    await page.getByRole('button', { name: 'Follow live' }).waitFor();
    await drawn(page);
    const place = (): Promise<(string | null)[]> =>
      Promise.all(['data-k', 'data-tx'].map((name) => graph.getAttribute(name)));
    const before = await place();
    await connection(page, 'ended');
    expect(await place()).toEqual(before);
    await page.keyboard.press('F');
    await until(
      () => graph.getAttribute('data-following'),
      (following) => following === 'true',
      'it follows again',
    );
    await until(place, (now) => now.join() !== before.join(), 'the whole tree is shown');
    await close(page);
  });
});
