// Makes the moving picture of the README: a question, the tree that grows from it, a killed server, and the answer with
// its source. The run is a real one over this project's documents. `make web-screenshots` writes the picture to
// web/screenshots/growing.webp. It needs `img2webp`, of Debian's package `webp`.

import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { BrowserContext, Page } from 'playwright-core';
import { launch } from '../e2e/browser';
import { Gateway } from '../e2e/gateway';
import { until } from '../e2e/page';

const OUT = new URL('../screenshots/growing.webp', import.meta.url).pathname;
const ROOT = new URL('../../', import.meta.url).pathname;
const QUESTION = 'How does a run survive when a planner, a driver, the database or Redis dies?';
const DOCUMENTS = [
  ...['guarantees', 'operations', 'scaling'].map((name) => `docs/${name}.md`),
  ...['driver-leases', 'group-commit'].map((name) => `docs/decisions/${name}.md`),
];
/** The server is killed when the tree has so many nodes. */
const KILLED_AT = 12;
const LEAST_NODES = 12;
const MOST_BYTES = 1_500_000;
const SIZE = { width: 1240, height: 760 };
/** Frames of the growth at the most, milliseconds between two of them, and how fast it is shown. */
const MOST_FRAMES = 90;
const FRAME_MS = 64;
const SPEED = 0.15;
/** So many frames follow the last event that is shown. */
const AFTER_FRAMES = 24;
/** A new node may be on its way for so many frames. */
const LAG_FRAMES = 7;

/** Frames as arguments of `img2webp`: each after its time in milliseconds. */
class Film {
  readonly frames: string[] = [];
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  async shoot(page: Page, ms: number): Promise<void> {
    const path = join(this.#folder, `${String(this.frames.length).padStart(5, '0')}.png`);
    await page.screenshot({ path });
    this.frames.push('-d', String(ms), path);
  }
}

/** A page that tells how many nodes its last frame drew, and how many there were. */
async function watched(context: BrowserContext): Promise<{ page: Page; drawn: () => Promise<[number, number]> }> {
  const page = await context.newPage();
  await page.addInitScript(() => {
    const told = { drawn: [0, 0] };
    Object.assign(globalThis, {
      told,
      treeAgentProbe: (what: string, drawn: number, nodes: number) =>
        void (what === 'drawn' && (told.drawn = [drawn, nodes])),
    });
  });
  const drawn = (): Promise<[number, number]> =>
    page.evaluate(() => (globalThis as unknown as { told: { drawn: [number, number] } }).told.drawn);
  return { page, drawn };
}

export async function main(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'tree-agent-picture-'));
  const gateway = new Gateway();
  const [browser] = await Promise.all([launch(), gateway.start()]);
  const open = (): Promise<BrowserContext> => browser.newContext({ viewport: SIZE });
  try {
    for (const file of DOCUMENTS) cpSync(join(ROOT, file), join(folder, 'notes', file));
    await gateway.cli('import', join(folder, 'notes'), '--project', 'Handbook');

    const question = new Film(mkdtempSync(join(folder, 'question-')));
    const { page } = await watched(await open());
    await page.goto(gateway.url);
    await page.getByText('Search', { exact: true }).last().click();
    await page.getByRole('textbox').first().click();
    for (const part of QUESTION.split(/(?<= )/)) {
      await page.keyboard.type(part);
      await question.shoot(page, 60);
    }
    await question.shoot(page, 900);

    // The run itself, with the server killed in the middle, as it was seen live.
    const asked = ['--strategy', 'search', '--max-nodes', '60', '--concurrency', '1'];
    const run = await gateway.run(QUESTION, 'offline', ...asked);
    const live = new Film(mkdtempSync(join(folder, 'live-')));
    await page.goto(`${gateway.url}/runs/${run}?view=graph`);
    const { seq } = await until(
      () => gateway.graph(run),
      (graph) => graph.nodes.length >= KILLED_AT,
      'the tree grows',
    );
    await gateway.kill();
    await page.locator('[data-connection=reconnecting], [data-connection=stale]').waitFor();
    await page.evaluate(() => {
      const said = document.createElement('code');
      said.id = 'said';
      said.textContent = '$ kill -9 tree-agent';
      said.style.cssText =
        'position:fixed;left:50%;bottom:110px;translate:-50%;z-index:9;padding:10px 18px;border-radius:10px;' +
        'background:#16161d;color:#fff;font:600 20px monospace';
      document.body.append(said);
    });
    const say = (text: string): Promise<void> =>
      page.evaluate((words) => {
        const said = document.getElementById('said')!;
        said.textContent = words;
        said.hidden = words === '';
      }, text);
    for (let i = 0; i < 14; i++) await live.shoot(page, 100);
    await say('$ tree-agent dev');
    const back = gateway.start();
    const state = (): Promise<string | null> =>
      page.locator('[data-connection]').first().getAttribute('data-connection');
    for (let isBack = false, last = 4, i = 0; i < 300 && last > 0; i++) {
      await live.shoot(page, 90);
      const now = await state();
      isBack ||= now === 'live' || now === 'ended';
      if (isBack) await say('');
      if (now === 'ended') last -= 1;
    }
    await back;
    const { nodes } = await until(
      () => gateway.graph(run),
      (graph) => graph.status === 'completed',
      'the run ends',
    );
    if (nodes.length < LEAST_NODES)
      throw new Error(`the tree has ${nodes.length} nodes; at least ${LEAST_NODES} are wanted`);

    const grown = new Film(mkdtempSync(join(folder, 'grown-')));
    await grow(await watched(await open()), `${gateway.url}/runs/${run}?view=graph`, seq, nodes.length, grown);
    const answer = new Film(mkdtempSync(join(folder, 'answer-')));
    await page.goto(`${gateway.url}/runs/${run}?view=graph`);
    await page.waitForTimeout(1500);
    const poster = new Film(mkdtempSync(join(folder, 'poster-')));
    await poster.shoot(page, 120);
    await answer.shoot(page, 900);
    await page.getByRole('button', { name: 'Answer', exact: true }).click();
    await page.locator('a.cite, button.cite').first().waitFor();
    await answer.shoot(page, 2_000);
    await page.locator('a.cite, button.cite').first().click();
    await page.locator('mark').first().waitFor();
    await page.waitForTimeout(500);
    await answer.shoot(page, 4_000);

    const frames = [poster, question, grown, live, answer].flatMap((film) => film.frames);
    execFileSync('img2webp', ['-loop', '0', '-lossy', '-q', '50', '-m', '6', ...frames, '-o', OUT], {
      stdio: 'ignore',
    });
    const size = statSync(OUT).size;
    process.stdout.write(`growing.webp: ${frames.length / 3} frames, ${nodes.length} nodes, ${size} bytes\n`);
    if (size > MOST_BYTES) throw new Error(`the picture has ${size} bytes; ${MOST_BYTES} are allowed`);
  } finally {
    await browser.close();
    await gateway.stop();
    if (process.env.KEEP_FRAMES === undefined) rmSync(folder, { recursive: true, force: true });
    else process.stdout.write(`${folder}\n`);
  }
}

/** Plays the run up to an event, on a clock that goes on by one frame at a time, so that no frame is left out. */
async function grow(
  { page, drawn }: { page: Page; drawn: () => Promise<[number, number]> },
  url: string,
  seq: number,
  most: number,
  film: Film,
): Promise<void> {
  await page.clock.install();
  await page.goto(`${url}&seq=2`);
  await page.getByRole('button', { name: 'Play', exact: true }).waitFor();
  await page.getByText('loading events').waitFor({ state: 'hidden' });
  // The run took a moment. It is shown so slowly that one can follow, and what moves on the screen is not.
  await page.getByLabel('Speed').evaluate((select: HTMLSelectElement, speed) => {
    Object.assign(select.options[0]!, { __value: speed });
    select.dispatchEvent(new Event('change'));
  }, SPEED);
  await page.clock.pauseAt(Date.now() + 2_000);
  const at = async (): Promise<number> => Number(await page.getByTestId('seq').getAttribute('data-seq'));
  await page.keyboard.press(' ');
  const known: number[] = [];
  for (let i = 0, after = 0; i < MOST_FRAMES && after < AFTER_FRAMES; i++) {
    if ((await at()) >= seq) after += 1;
    await page.clock.runFor(FRAME_MS);
    await film.shoot(page, FRAME_MS);
    const [shown, nodes] = await drawn();
    known.push(Math.min(nodes, most));
    const before = known.at(-1 - LAG_FRAMES) ?? 1;
    if (shown < before) throw new Error(`frame ${i} draws ${shown} of ${before} nodes`);
  }
}
