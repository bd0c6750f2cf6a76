// The answer of a run as a page: pills, cards, the source beside it, copies, and texts that are large or hostile.

import { createHash } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CitedClaimSchema, Verdict } from '../src/gen/treeagent/v1/citations_pb';
import { ArtifactType, RunStatus } from '../src/gen/treeagent/v1/common_pb';
import { DocumentKind } from '../src/gen/treeagent/v1/document_service_pb';
import { violations } from './axe';
import { launch } from './browser';
import { Gateway } from './gateway';
import { Log, nodeId, runId } from './logs';
import { MockGateway } from './mock';
import { MockDocument } from './mock-documents';
import { close, open, until } from './page';
import { QUICK } from './quick';

const gateway = new Gateway();
const mock = new MockGateway();
let browser: Browser;
let notes: string;
let mocked: string;

beforeAll(async () => {
  notes = await mkdtemp(join(tmpdir(), 'tree-agent-notes-'));
  [browser, mocked] = await Promise.all([launch(), mock.listen(), gateway.start()]);
});
afterAll(async () => {
  await browser?.close();
  await mock.close();
  await gateway.stop();
  await rm(notes, { recursive: true, force: true });
});

const uuid = (n: number): string => `0190a1b2-c3d4-7e5f-8a9b-${n.toString(16).padStart(12, '0')}`;
const pills = (page: Page) => page.getByTestId('answer-page').locator('[data-cite]');

/** A run that was made up: one node with this answer, and citations of it. */
function answered(n: number, text: string, status = RunStatus.COMPLETED): string {
  const log = mock.add(new Log(runId(n), 'What is it?'));
  log.node(-1, 'What is it?');
  const value = {
    artifactId: uuid(n),
    artifactType: ArtifactType.DOCUMENT,
    documentId: uuid(n + 1),
    title: 'The answer',
    isPrimary: true,
  };
  if (text !== '') log.add(0, { case: 'artifactCreated', value });
  const summary = { documentId: uuid(n + 1), runId: log.run, kind: DocumentKind.ARTIFACT, title: 'The answer' };
  if (text !== '') mock.documents.push(new MockDocument(summary).write(log.head, text));
  if (status === RunStatus.COMPLETED) log.done(0);
  else log.fail(0, 'guard:stopped');
  log.end(status);
  return `${mocked}/runs/${log.run}?view=answer`;
}

function cite(n: number, claim: string, quote: string, source: MockDocument | string): void {
  const log = mock.logs.get(runId(n))!;
  const text = typeof source === 'string' ? '' : source.textAt(Infinity)!;
  const found = text.includes(quote);
  const passage = {
    offset: BigInt(Buffer.byteLength(text.slice(0, text.indexOf(quote)))),
    bytes: BigInt(Buffer.byteLength(quote)),
    sha256: createHash('sha256').update(quote).digest('hex'),
  };
  const citation = {
    claim,
    quote,
    documentId: typeof source === 'string' ? source : source.summary.documentId,
    ...(found ? { verdict: Verdict.VERIFIED, passage } : { verdict: Verdict.NOT_FOUND }),
  };
  const counts = { total: 1n, ...(found ? { found: 1n } : { notFound: 1n, doubted: 1n }) };
  // Before the run ends.
  const ending = log.events.splice(-3);
  log.add(0, { case: 'artifactCited', value: { artifactId: uuid(n), citations: [citation], counts } });
  for (const event of ending) log.add(0, event.body);
  mock.citations.push(
    create(CitedClaimSchema, {
      index: BigInt(mock.citations.length),
      nodeId: nodeId(0),
      artifactId: uuid(n),
      citation,
    }),
  );
}

describe('the answer of a run', () => {
  it('leads from its pills to the marked passage of the source and back, by mouse and keyboard', QUICK, async () => {
    // Its own marks are text.
    const tides =
      'The **tide** turns twice\na day in `Fundy`, linkgit:git-tide[1], and rises[^2] sixteen metres there.';
    await writeFile(join(notes, 'tides.md'), `# Tides\n\n## In bays\n\n${tides}\n\n## Elsewhere\n\nNot so high.\n`);
    await writeFile(join(notes, 'moon.md'), '# Moon\n\nThe moon pulls the tide, and the tide follows the moon.\n');
    await gateway.cli('import', notes, '--project', 'Coast');
    const run = await gateway.run('How does the tide turn in Fundy?', 'offline', '--project', 'Coast');
    await until(
      () => gateway.graph(run),
      (graph) => graph.status === 'completed',
      'the run ends',
      60_000,
    );
    const page = await open(browser, `${gateway.url}/runs/${run}?view=`, { reducedMotion: 'reduce' });
    // A run that has ended opens with its answer.
    await page
      .getByTestId('answer-facts')
      .getByText(/^(\d+) of \1 quotes? found · \d+ sources? · /)
      .waitFor();
    const text = page.getByTestId('answer-page');
    await text.locator('blockquote').getByText('linkgit:git-tide[1], and rises[^2] sixteen metres').waitFor();
    expect(await pills(page).count()).toBe(await text.locator('blockquote').count());

    const pill = pills(page).filter({ hasText: '1' }).first();
    await pill.hover();
    const card = page.getByRole('tooltip');
    await card.getByText(/^(tides\.md › Tides › In bays|moon\.md › Moon)$/).waitFor();
    await card.getByText('These words stand in the source.').waitFor();
    const found = await violations(page, 'the answer with a card');

    const fundy = pills(page).nth(
      (await text.locator('blockquote').allInnerTexts()).findIndex((said) => said.includes('Fundy')),
    );
    await fundy.focus();
    await page.keyboard.press('Enter');
    const marks = page.getByTestId('source-panel').locator('.md mark.passage');
    await marks.first().and(page.locator(':focus')).waitFor();
    expect((await marks.allInnerTexts()).join('').replace(/\s+/g, ' ')).toContain('tide turns twice a day in Fundy');
    await page.getByTestId('source-panel').getByText('tides.md', { exact: true }).waitFor();
    const chain = page.getByTestId('answer-chain');
    await chain.getByText('tides.md').waitFor();
    await chain.getByRole('button', { name: 'Answer' }).waitFor();
    found.push(...(await violations(page, 'the answer with a source')));
    await page.keyboard.press('Escape');
    await fundy.and(page.locator(':focus')).waitFor();
    expect(await page.getByTestId('source-panel').count()).toBe(0);
    expect(found).toEqual([]);

    await page.getByRole('button', { name: 'Share' }).click();
    await page.getByRole('button', { name: 'Copy as Markdown' }).click();
    await page.getByText('Copied', { exact: true }).waitFor();
    const copied = (): Promise<string> => page.evaluate(() => navigator.clipboard.readText());
    expect(await copied()).toMatch(/\n\[\^1\]: (tides|moon)\.md › /);
    await page.getByRole('button', { name: 'Share' }).click();
    await page.getByRole('button', { name: 'Copy as HTML' }).click();
    await until(copied, (html) => html.startsWith('<h1>How does the tide turn in Fundy?</h1>'), 'it is HTML');
    expect(await copied()).toMatch(/<blockquote><p>[^]*<sup>\[1\]<\/sup><\/p><\/blockquote>/);
    expect(await copied()).not.toMatch(/class=|<svg|<button/);

    await page.emulateMedia({ media: 'print' });
    expect(await page.getByRole('button', { name: 'Share' }).isVisible()).toBe(false);
    expect(await page.getByRole('navigation', { name: 'Views of the run' }).isVisible()).toBe(false);
    await page.getByTestId('answer-sources').getByText('tides.md').waitFor();
    await close(page);
  });

  it('shows sources that disagree side by side, the newer one first', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'tree-agent-beacons-'));
    await writeFile(
      join(folder, 'beacon-2019.md'),
      '# The beacon\n\nThe beacon of Lund was lit in 1931. It is tall.\n',
    );
    await writeFile(join(folder, 'beacon-2024.md'), '# Beacons\n\nThe beacon of Lund was lit in 1957. It is white.\n');
    await gateway.cli('import', folder, '--project', 'Beacons');
    const run = await gateway.run('When was the beacon of Lund lit?', 'offline', '--project', 'Beacons');
    await until(
      () => gateway.graph(run),
      (graph) => graph.status === 'completed',
      'the run ends',
      60_000,
    );
    const page = await open(browser, `${gateway.url}/runs/${run}?view=answer`);
    const pair = page.getByTestId('disagreement');
    await pair.getByText('Sources disagree: 1957 or 1931').click();
    const sides = pair.getByRole('figure');
    expect(await sides.first().innerText()).toMatch(
      /1957\s+2024[^]*The beacon of Lund was lit in 1957\.[^]*beacon-2024\.md/,
    );
    await sides.nth(1).getByRole('link', { name: 'beacon-2019.md' }).click();
    await page.locator('mark.passage').getByText('The beacon of Lund was lit in 1931.').waitFor();
    expect(await violations(page, 'sources that disagree')).toEqual([]);
    await close(page);
    await rm(folder, { recursive: true, force: true });
  });

  it('says which sources are gone, which sentences are doubted, and keeps the direction of a text', async () => {
    const source = new MockDocument({
      documentId: uuid(900),
      projectId: uuid(901),
      path: 'ירח.md',
      kind: DocumentKind.SOURCE,
      title: 'ירח',
    }).write(1, '# ירח\n\nהירח מושך את הים.\n');
    mock.documents.push(source);
    const url = answered(
      100,
      `# What is it?\n\nהים נמשך.[^1] It is far.[^2] Nobody knows.[^3]\n\n[^1]: ${uuid(900)} "הירח מושך את הים."\n[^2]: ${uuid(999)} "It is gone."\n[^3]: A remark.\n`,
    );
    cite(100, 'הים נמשך.', 'הירח מושך את הים.', source);
    cite(100, 'It is far.', 'It is gone.', uuid(999));
    const page = await open(browser, url);
    await page.getByTestId('answer-facts').getByText('1 of 2 quotes found · 1 source').waitFor();
    await page
      .getByText('1 statement has quotes that were not found in their sources; underlined in the text.')
      .waitFor();
    expect(
      await page
        .locator('.md p')
        .first()
        .evaluate((p) => getComputedStyle(p).direction),
    ).toBe('rtl');
    await page.locator('mark[data-why]').getByText('It is far.').hover();
    await page.getByRole('tooltip').getByText('Doubted claim: not found in the source').waitFor();
    await pills(page).nth(1).hover();
    await page.getByRole('tooltip').getByText('The document is gone, or cannot be read now.').waitFor();
    await pills(page).nth(1).click();
    await page.getByText('Document not found').waitFor();
    await page.getByRole('button', { name: 'Close source' }).click();
    await pills(page).first().click();
    await page.getByTestId('source-panel').locator('mark.passage').getByText('הירח מושך את הים.').waitFor();
    // A footnote that cites nothing is one.
    await page.getByRole('region', { name: 'Footnotes' }).getByText('A remark.').waitFor();
    await close(page);
  });

  it('shows a megabyte soon, and does not stop the page', async () => {
    const block =
      '## A part\n\nSome **bold** words, `code` and [a link](https://a.example), and more of them.\n\n- an item\n- another\n\n';
    const page = await open(browser, answered(200, `# What is it?\n\n${block.repeat(9000)}The very end.\n`), {});
    await page.evaluate(() => {
      const longest = globalThis as unknown as { longest: number };
      longest.longest = 0;
      new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) longest.longest = Math.max(longest.longest, entry.duration);
      }).observe({ type: 'longtask', buffered: true });
    });
    const text = page.getByTestId('answer-page');
    await text.getByRole('heading', { name: 'A part' }).first().waitFor();
    // The beginning is there while the end is not.
    expect(await text.getByText('The very end.').count()).toBe(0);
    await until(
      () => text.locator('.part').count(),
      (parts) => parts >= 6,
      'more of it comes',
    );
    // Reading all of it at once would take several times as long.
    expect(await page.evaluate(() => (globalThis as unknown as { longest: number }).longest)).toBeLessThan(2000);
    await close(page);
  });

  it('that takes the parser too long is shown as it is', async () => {
    const hostile = `${'*_'.repeat(8000)}a${'_*'.repeat(7900)}`;
    const page = await open(browser, answered(300, `# What is it?\n\nBefore.\n\n${hostile}\n`));
    await page.locator('.unread').getByText('Before.').waitFor();
    // The next text is read as ever.
    await page.goto(answered(310, '# What is it?\n\nA *word*.\n'));
    await page.locator('.md em').getByText('word').waitFor();
    await close(page);
  });

  it('that never came says why, and what to do', async () => {
    const page = await open(browser, answered(400, '', RunStatus.FAILED));
    await page.getByRole('heading', { name: 'The run failed' }).waitFor();
    await page.getByRole('button', { name: 'Show the graph' }).click();
    await page.getByTestId('answer-page').waitFor({ state: 'detached' });
    await close(page);
  });
});
