// Citations while a run is at work, long sources, and footnotes: made-up logs, against a gateway that replays them.

import { createHash } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CitedClaimSchema, Verdict, type CitedClaim } from '../src/gen/treeagent/v1/citations_pb';
import { ArtifactType } from '../src/gen/treeagent/v1/common_pb';
import { DocumentKind } from '../src/gen/treeagent/v1/document_service_pb';
import { launch } from './browser';
import { Log, nodeId, runId } from './logs';
import { MockGateway } from './mock';
import { MockDocument } from './mock-documents';
import { close, connection, drawn, open, until } from './page';

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

const uuid = (n: number): string => `0190a1b2-c3d4-7e5f-8a9b-${n.toString(16).padStart(12, '0')}`;
const SOURCE = uuid(1);
const GONE = uuid(2);

/** A run whose only node returned an artifact with this text. */
class Cited {
  readonly log: Log;
  readonly artifact: string;
  readonly document: string;

  constructor(n: number, text: string) {
    this.artifact = uuid(n);
    this.document = uuid(n + 1);
    this.log = gateway.add(new Log(runId(n), 'Cite while at work'));
    this.log.node(-1, 'Cite while at work');
    this.log.add(0, {
      case: 'artifactCreated',
      value: {
        artifactId: this.artifact,
        artifactType: ArtifactType.DOCUMENT,
        documentId: this.document,
        title: 'The answer',
        isPrimary: true,
      },
    });
    const summary = {
      documentId: this.document,
      runId: this.log.run,
      nodeId: nodeId(0),
      kind: DocumentKind.ARTIFACT,
      title: 'The answer',
    };
    gateway.documents.push(new MockDocument(summary).write(this.log.head, text));
  }

  /** One more event with a citation. */
  cite(claim: string, quote: string, source?: string): void {
    const at = source?.indexOf(quote) ?? -1;
    const passage = {
      offset: BigInt(Buffer.byteLength(source?.slice(0, at) ?? '')),
      bytes: BigInt(Buffer.byteLength(quote)),
      sha256: createHash('sha256').update(quote).digest('hex'),
    };
    const citation = {
      claim,
      quote,
      documentId: SOURCE,
      ...(at < 0 ? { verdict: Verdict.NOT_FOUND } : { verdict: Verdict.VERIFIED, passage }),
    };
    const counts = { total: 1n, ...(at < 0 ? { notFound: 1n, doubted: 1n } : { found: 1n }) };
    this.log.add(0, { case: 'artifactCited', value: { artifactId: this.artifact, citations: [citation], counts } });
    const known: CitedClaim = create(CitedClaimSchema, {
      index: BigInt(gateway.citations.length),
      nodeId: nodeId(0),
      artifactId: this.artifact,
      artifactTitle: 'The answer',
      citation,
      sourceTitle: 'A long source',
    });
    gateway.citations.push(known);
    gateway.publish();
  }

  open(params = ''): Promise<Page & { problems: string[] }> {
    return open(browser, `${url}/runs/${this.log.run}?node=${nodeId(0)}&tab=result${params}`);
  }
}

/** More than is shown at once, in characters of every length, with the quote far behind. */
const QUOTE = 'Die Flut \u2014 潮 \u{1f30a} \u2014 kommt | zweimal';
const ROWS = '| Zeile \u{1f30a} | \u00e4\u00f6\u00fc 潮 |\n'.repeat(20_000);
const LONG = `# Quelle\n\n${ROWS}\n\`\`\`\n${QUOTE}\n\`\`\`\n${'Danach. '.repeat(40_000)}`;
gateway.documents.push(
  new MockDocument({
    documentId: SOURCE,
    projectId: uuid(3),
    path: 'long/source.md',
    kind: DocumentKind.SOURCE,
    title: 'A long source',
  }).write(1, LONG),
);

const shown = (page: Page): Promise<(string | null)[]> =>
  page
    .getByTestId('citations')
    .locator('[data-verdict]')
    .evaluateAll((all) => all.map((one) => one.getAttribute('data-verdict')));

describe('the citations of a run at work', () => {
  it('are read again when the log has more, and not otherwise', async () => {
    const run = new Cited(100, 'One claim here.\n\nTwo claims here.\n');
    gateway.citations.length = 0;
    run.cite('One claim here.', QUOTE, LONG);
    const page = await run.open();
    await connection(page, 'live');
    let asked = 0;
    page.on('request', (request) => (asked += Number(request.url().endsWith('/ListCitations'))));
    await page.getByRole('button', { name: '1 found, 0 not found' }).click();
    await until(
      () => shown(page),
      (all) => all.join() === 'found in the source',
      'the first one',
    );
    run.log.add(0, { case: 'usageRecorded', value: { model: 'made up', inputTokens: 1n } });
    run.cite('Two claims here.', 'Never said.');
    await until(
      () => shown(page),
      (all) => all.join() === 'found in the source,not found in the source',
      'both',
    );
    await page.getByRole('button', { name: '1 found, 1 not found' }).waitFor();
    expect(asked).toBe(2);
    // The past has only the first one, and asks for nothing.
    await page.getByLabel('Event of the run').fill('5');
    await page.getByText('As of event 5: 1 of 1 shown').waitFor();
    expect(await shown(page)).toEqual(['found in the source']);
    await page.keyboard.press('l');
    await until(
      () => shown(page),
      (all) => all.length === 2,
      'the present is back',
    );
    expect(asked).toBe(2);
    await close(page);
  });

  it('that the run dropped are not made up', async () => {
    const run = new Cited(200, 'One claim here.\n');
    gateway.citations.length = 0;
    run.cite('One claim here.', QUOTE, LONG);
    gateway.citations.length = 0;
    const page = await run.open();
    await page.getByRole('button', { name: '1 found, 0 not found' }).click();
    await page.getByText('The run dropped this artifact later, and its citations with it.').waitFor();
    await close(page);
  });
});

describe('the verification of an answer', () => {
  it('says what is met, and its doubts are underlined in the answer', async () => {
    const run = new Cited(250, 'One claim here. Two claims here.\n');
    gateway.citations.length = 0;
    run.cite('One claim here.', 'Never said.');
    run.log.add(0, { case: 'nodeResult', value: { result: { summary: 'One and two' } } });
    const page = await run.open();
    await page.getByRole('button', { name: 'Read', exact: true }).click();
    await page.locator('.md mark').getByText('One claim here.').waitFor();
    const verification = {
      summary: 'Nearly right.',
      criteria: [
        { criterion: 'It is short', met: true, note: '' },
        { criterion: 'It is true', met: false, note: 'Two is wrong.' },
      ],
      doubts: [{ claim: 'Two claims here.', reason: 'There is one.' }],
    };
    run.log.add(0, { case: 'answerVerified', value: { verification } });
    gateway.publish();
    const criteria = page.getByRole('list', { name: 'Criteria' }).getByRole('listitem');
    await criteria.filter({ hasText: 'It is true' }).getByText('not met').waitFor();
    await criteria.filter({ hasText: 'It is short' }).getByText('met', { exact: true }).waitFor();
    await page.getByRole('list', { name: 'Doubted claims' }).getByText('There is one.').waitFor();
    const doubt = page.locator('.md mark').getByText('Two claims here.');
    await doubt.waitFor();
    expect(await doubt.getAttribute('title')).toBe('Doubted by the verifier: There is one.');
    await page.getByTestId('claim-legend').getByText('The verifier doubts 1 claim of it').waitFor();
    // Before, there was no verification.
    await page.getByLabel('Event of the run').fill(String(run.log.head - 1));
    await page.getByRole('list', { name: 'Criteria' }).waitFor({ state: 'detached' });
    await doubt.waitFor({ state: 'detached' });
    await close(page);
  });
});

const TEXT = `# The answer

The tide comes twice.[^1] It said so.[^zwei] Twice is often.[^1] And nothing[^missing].

| what | how |
|---|---|
| tide | twice[^3] |

[^1]: ${SOURCE} "${QUOTE}"
[^zwei]: ${GONE} "Never said." (unverified: there is no document with this document_id)
[^3]: <img src=x onerror=alert(1)> [go](javascript:alert(1)) in **bold**
[^a"><b>]: A label with marks.
`;

describe('footnotes', () => {
  it('lead to their text and back, by mouse and by keyboard', async () => {
    const run = new Cited(300, TEXT);
    gateway.citations.length = 0;
    run.cite('The tide comes twice.', QUOTE, LONG);
    const page = await run.open(`&view=documents&document=${run.document}`);
    const text = page.getByTestId('document-panel').locator('.md');
    const notes = text.getByRole('region', { name: 'Footnotes' });
    await notes.getByRole('link', { name: 'A long source' }).waitFor();
    expect(await text.locator('sup > a').allInnerTexts()).toEqual(expect.arrayContaining(['1', '2', '1', '3']));
    await text.getByText('[^missing]').waitFor();
    expect(await notes.locator('img').count()).toBe(0);
    await notes.getByText('(no such document)').waitFor();
    await notes.getByText('A label with marks.').waitFor();
    const before = page.url();
    await text.getByRole('link', { name: 'Footnote 1' }).nth(1).focus();
    await page.keyboard.press('Enter');
    expect(await page.evaluate(() => document.activeElement!.textContent)).toContain(QUOTE);
    await page.keyboard.press('Tab');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Tab');
    await notes.getByRole('link', { name: 'Back to reference 2 of footnote 1' }).and(page.locator(':focus')).waitFor();
    await page.keyboard.press('Enter');
    await text.getByRole('link', { name: 'Footnote 1' }).nth(1).and(page.locator(':focus')).waitFor();
    expect(page.url()).toBe(before);
    await close(page);
  });

  it('open their document at the words, however long it is', async () => {
    const run = new Cited(400, TEXT);
    gateway.citations.length = 0;
    run.cite('The tide comes twice.', QUOTE, LONG);
    run.cite('It said so.', 'Never said.');
    const page = await run.open(`&view=documents&document=${run.document}`);
    const panel = page.getByTestId('document-panel');
    await panel.locator('mark').getByText('It said so.').waitFor();
    await panel.getByRole('link', { name: 'A long source' }).click();
    await page.getByText('The passage is marked below. It has not changed.').waitFor();
    const mark = page.getByTestId('source-panel').locator('mark');
    // What is out of view is not drawn, and has no text to read.
    await until(
      () => mark.innerText(),
      (text) => text === QUOTE,
      'the passage is in view',
    );
    await drawn(page);
    expect(
      await mark.evaluate((element) => {
        const [at, body] = [element.getBoundingClientRect(), element.closest('[role=region]')!.getBoundingClientRect()];
        return at.top >= body.top && at.bottom <= body.bottom && document.activeElement === element;
      }),
    ).toBe(true);
    await page.getByText('The beginning of the document is not shown.').waitFor();
    await page.getByText('The end of the document is not shown.').waitFor();
    await page.getByTestId('source-panel').getByText('long/source.md').waitFor();
    await page.getByRole('button', { name: 'Close source' }).click();
    await panel.getByRole('link', { name: 'A long source' }).waitFor();
    await close(page);
  });

  it('have ids of their own in every document on a page', async () => {
    const run = new Cited(500, TEXT);
    const page = await run.open();
    await page.getByRole('button', { name: 'Read', exact: true }).click();
    await page.getByRole('region', { name: 'Footnotes' }).waitFor();
    const ids = await page.locator('[id]').evaluateAll((all) => all.map((one) => one.id));
    expect(ids.filter((id) => /-(?:note|ref)-/.test(id)).length).toBe(8);
    expect(new Set(ids).size).toBe(ids.length);
    for (const link of await page.locator('a[href^="#"]').all()) {
      const to = (await link.getAttribute('href'))!.slice(1);
      expect(ids).toContain(to);
    }
    await close(page);
  });
});
