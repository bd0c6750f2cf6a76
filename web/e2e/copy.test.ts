// What is copied works where it is pasted: run, node, event and document, each as JSON, URL, grpcurl line and command
// line, against a real gateway. Lines run in a shell as they are.

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { launch } from './browser';
import { Gateway, type GraphJson } from './gateway';
import { Issuer } from './issuer';
import { close, connection, copyAs, open, shownSeq, signIn, treeItem, until } from './page';
import { Proxy } from './proxy';
import { Shell } from './shell';

const gateway = new Gateway();
const shell = new Shell();
let browser: Browser;
let run: string;
let graph: GraphJson;

beforeAll(async () => {
  [browser] = await Promise.all([launch(), gateway.start(), shell.open()]);
  run = await gateway.run('Copy what isn\'t "safe" $HOME', 'scripted:fanout=2,depth=1,artifacts=document,tools=1');
  graph = await until(
    () => gateway.graph(run),
    (g) => g.status === 'completed',
    'the run ends',
    60_000,
  );
});
afterAll(async () => {
  await browser?.close();
  await gateway.stop();
  await shell.close();
});

describe('copying', () => {
  it('gives a run', async () => {
    const page = await open(browser, `${gateway.url}/runs/${run}`);
    await connection(page, 'ended');
    const json = JSON.parse(await copyAs(page, 'JSON')) as GraphJson;
    expect(json.nodes.map((n) => [n.id, n.status])).toEqual(graph.nodes.map((n) => [n.id, n.status]));
    expect(JSON.parse(await shell.run(await copyAs(page, 'grpcurl')))).toMatchObject({ graph: { runId: run } });
    expect(await shell.run(`${await copyAs(page, 'CLI')} -o jsonl`)).toContain(run);
    await page.goto(await copyAs(page, 'URL'));
    await page.getByRole('button', { name: 'Graph', exact: true }).click();
    await treeItem(page, /^Copy what/).waitFor();
    // As it was, too.
    const then = (await shownSeq(page)) - 5;
    await page.getByLabel('Event of the run').fill(String(then));
    await page.getByTestId('moment').waitFor();
    expect(JSON.parse(await copyAs(page, 'JSON'))).toMatchObject({ seq: then });
    expect(JSON.parse(await shell.run(await copyAs(page, 'grpcurl')))).toMatchObject({ graph: { seq: String(then) } });
    expect(JSON.parse(await shell.run(`${await copyAs(page, 'CLI')} --format json`))).toMatchObject({ seq: then });
    await page.goto(await copyAs(page, 'URL'));
    await until(
      () => shownSeq(page),
      (seq) => seq === then,
      'its moment is shown',
    );
    await close(page);
  });

  it('gives a node, also as it was in the past', async () => {
    const page = await open(browser, `${gateway.url}/runs/${run}`);
    await connection(page, 'ended');
    await treeItem(page, /^s1,/).click();
    const panel = page.getByTestId('node-panel');
    const id = (await panel.getAttribute('data-panel-node'))!;
    expect(JSON.parse(await copyAs(page, 'JSON', panel))).toMatchObject({ id, title: 's1', status: 'completed' });
    expect(await shell.run(await copyAs(page, 'grpcurl', panel))).toContain(id);
    expect(await shell.run(`${await copyAs(page, 'CLI', panel)} -o jsonl`)).toContain(`"nodeId":"${id}"`);
    const head = await shownSeq(page);
    await page.getByLabel('Event of the run').fill(String(head - 2));
    await page.waitForURL(/seq=/);
    const url = await copyAs(page, 'URL', panel);
    await page.goto(url);
    await page.locator(`[data-panel-node="${id}"]`).waitFor();
    expect(await shownSeq(page)).toBe(head - 2);
    await close(page);
  });

  it('gives an event', async () => {
    const page = await open(browser, `${gateway.url}/runs/${run}?view=time&type=tree.tool_call_requested`);
    await connection(page, 'ended');
    const row = page.getByTestId('event-rows').locator('.event').first();
    await row.click();
    const seq = Number(await row.getAttribute('data-seq'));
    const detail = page.locator('.detail');
    expect(JSON.parse(await copyAs(page, 'JSON', detail))).toMatchObject({ runId: run, seq: String(seq) });
    expect(JSON.parse(await shell.run(await copyAs(page, 'grpcurl', detail)))).toMatchObject({
      events: [{ seq: String(seq) }],
    });
    expect(JSON.parse(await shell.run(await copyAs(page, 'CLI', detail)))).toMatchObject({
      seq,
      type: 'tree.tool_call_requested',
    });
    const url = await copyAs(page, 'URL', detail);
    await page.goto(url);
    await until(
      () => shownSeq(page),
      (s) => s === seq,
      'its moment is shown',
    );
    await page.locator(`.event[data-seq="${seq}"]`).waitFor();
    await close(page);
  });

  it('gives a scratchpad and an artifact', async () => {
    const page = await open(browser, `${gateway.url}/runs/${run}`);
    await connection(page, 'ended');
    await treeItem(page, /^s0,/).click();
    const panel = page.getByTestId('node-panel');
    const body = page.locator('[role=tabpanel]');
    for (const [tab, words] of [
      ['Scratchpad', 'scripted: executed'],
      ['Result', 'Result of s0.'],
    ] as const) {
      await page.getByRole('tab', { name: tab }).click();
      if (tab === 'Result') await panel.getByRole('button', { name: 'Read' }).click();
      await body.getByText('written').waitFor();
      // The first menu of a result is that of the result itself.
      const text = body.locator('.menu').last();
      expect((JSON.parse(await copyAs(page, 'JSON', text)) as { body: string }).body).toContain(words);
      expect(await shell.run(await copyAs(page, 'grpcurl', text))).toContain(words);
      expect(await shell.run(await copyAs(page, 'CLI', text))).toContain(words);
      const url = await copyAs(page, 'URL', text);
      await page.goto(url);
      await page.getByRole('tab', { name: tab, selected: true }).waitFor();
    }
    await close(page);
  });
});

describe('copying with a token', () => {
  const issuer = new Issuer();
  const proxy = new Proxy('https');
  let guarded: Gateway;
  let folder: string;

  beforeAll(async () => {
    guarded = new Gateway([], await issuer.publish());
    await guarded.start();
    await proxy.listen(guarded.url);
    folder = await mkdtemp(join(tmpdir(), "tree-agent's files-"));
  });
  afterAll(async () => {
    proxy.close();
    await guarded?.stop();
    await issuer.close();
    await rm(folder, { recursive: true, force: true });
  });

  it.each([
    ['http', () => guarded.url],
    ['https', () => proxy.url],
  ])('gives lines that read it from a file, over %s', async (_, address) => {
    const token = issuer.token('ann', 600);
    const [tokenFile, caFile] = [join(folder, 'token'), join(folder, 'ca.pem')];
    await writeFile(tokenFile, `${token}\n`, { mode: 0o600 });
    await writeFile(caFile, proxy.cert);
    const env = { TREE_AGENT_TOKEN_FILE: tokenFile, TREE_AGENT_CA_FILE: caFile };
    const id = await guarded.run('Only for those who may', 'scripted:fanout=1,depth=0');
    const page = await open(browser, `${address()}/runs/${id}`, { ignoreHTTPSErrors: true });
    await signIn(page, token);
    await connection(page, 'ended');
    for (const form of ['grpcurl', 'CLI']) {
      const line = await copyAs(page, form);
      expect(line).not.toContain(token);
      await page.getByTestId('toast').getByText('TREE_AGENT_TOKEN_FILE').waitFor();
      expect(await shell.run(line, env)).toContain('Only for those who may');
    }
    await close(page);
  });
});
