// Makes the moving picture of the README: a real run over this project's documents grows into its answer.
// `make web-screenshots` writes it to web/screenshots/growing.webp. It needs `img2webp`, of Debian's package `webp`.

import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { launch } from '../e2e/browser';
import { Gateway } from '../e2e/gateway';
import { until } from '../e2e/page';

const OUT = new URL('../screenshots/growing.webp', import.meta.url).pathname;
const ROOT = new URL('../../', import.meta.url).pathname;
const QUESTION = 'How does a run survive when a planner, a driver, the database or Redis dies?';
const DOCUMENTS = [
  ...['guarantees', 'operations', 'scaling', 'security', 'steering', 'homework'].map((name) => `docs/${name}.md`),
  ...['driver-leases', 'group-commit'].map((name) => `docs/decisions/${name}.md`),
];
const LEAST_NODES = 25;
const MOST_BYTES = 1_000_000;
/** Milliseconds between two frames, and how long the last one stays. */
const FRAME_MS = 140;
const LAST_MS = 4_000;
const SIZE = { width: 1200, height: 750 };

export async function main(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'tree-agent-picture-'));
  const gateway = new Gateway();
  const [browser] = await Promise.all([launch(), gateway.start()]);
  try {
    for (const file of DOCUMENTS) cpSync(join(ROOT, file), join(folder, 'notes', file));
    await gateway.cli('import', join(folder, 'notes'), '--project', 'Handbook');
    const asked = ['--strategy', 'search', '--max-nodes', '60', '--project', 'Handbook'];
    const run = await gateway.run(QUESTION, 'offline', ...asked);
    const { nodes } = await until(
      () => gateway.graph(run),
      (graph) => graph.status === 'completed',
      'the run ends',
    );
    if (nodes.length < LEAST_NODES)
      throw new Error(`the tree has ${nodes.length} nodes; at least ${LEAST_NODES} are wanted`);
    const page = await (await browser.newContext({ viewport: SIZE })).newPage();
    await page.goto(`${gateway.url}/runs/${run}?view=graph&seq=1`);
    await page.getByRole('button', { name: 'Play' }).waitFor();
    const frames = await record(page, folder);
    execFileSync('img2webp', ['-loop', '0', '-lossy', '-q', '55', '-m', '6', ...frames, '-o', OUT], {
      stdio: 'ignore',
    });
    const size = statSync(OUT).size;
    process.stdout.write(`growing.webp: ${frames.length} arguments, ${nodes.length} nodes, ${size} bytes\n`);
    if (size > MOST_BYTES) throw new Error(`the picture has ${size} bytes; ${MOST_BYTES} are allowed`);
  } finally {
    await browser.close();
    await gateway.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Plays the run and then its answer. Returns arguments of `img2webp`: each frame after its time in milliseconds. */
async function record(page: Page, folder: string): Promise<string[]> {
  const frames: string[] = [];
  const shoot = async (ms: number): Promise<void> => {
    const path = join(folder, `${String(frames.length).padStart(5, '0')}.png`);
    await page.screenshot({ path });
    frames.push('-d', String(ms), path);
  };
  await page.keyboard.press(' ');
  while ((await page.getByRole('button', { name: 'Pause', exact: true }).count()) > 0) await shoot(FRAME_MS);
  await shoot(1_200);
  await page.keyboard.press('l');
  await page.getByRole('button', { name: 'Answer', exact: true }).click();
  await page.getByTestId('answer-facts').waitFor();
  await shoot(1_500);
  await page.getByTestId('answer-page').hover();
  for (let i = 0; i < 6; i++) {
    await page.mouse.wheel(0, 90);
    await shoot(FRAME_MS);
  }
  await shoot(LAST_MS);
  return frames;
}
