// The documents of a run, now and in the past, against a real gateway.

import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { launch } from './browser';
import { QUICK } from './quick';
import { Gateway } from './gateway';
import { close, connection, open, shownSeq, treeItem, until } from './page';

const gateway = new Gateway();
let browser: Browser;
/** A run that has ended, with notes and documents. */
let done: string;
let head: number;

interface Summary {
  documentId: string;
  kind: string;
  parentId?: string;
  title: string;
}

beforeAll(async () => {
  [browser] = await Promise.all([launch(), gateway.start()]);
  done = await gateway.run('Write it all down', 'scripted:fanout=2,depth=2,notes=4,artifacts=document');
  head = (
    await until(
      () => gateway.graph(done),
      (g) => g.status === 'completed',
      'the run ends',
      60_000,
    )
  ).seq;
});
afterAll(async () => {
  await browser?.close();
  await gateway.stop();
});

const documentsOf = async (run: string): Promise<Summary[]> =>
  (
    JSON.parse(await gateway.rpc('DocumentService/ListDocuments', JSON.stringify({ runId: run, pageSize: 1000 }))) as {
      documents: Summary[];
    }
  ).documents;

/** The text of a document after an event; undefined before it was created. */
async function textAt(documentId: string, atSeq: number): Promise<string | undefined> {
  const answer = await gateway
    .rpc('DocumentService/GetDocument', JSON.stringify({ documentId, atSeq }))
    .catch(() => '');
  return answer === '' ? undefined : ((JSON.parse(answer) as { document: { body?: string } }).document.body ?? '');
}

const rows = (page: Page): Promise<{ id: string; level: number }[]> =>
  page
    .getByRole('tree', { name: 'Documents of the run' })
    .getByRole('treeitem')
    .evaluateAll((all) =>
      all.map((e) => ({ id: e.getAttribute('data-row')!, level: Number(e.getAttribute('aria-level')) })),
    );

const words = (text: string): string[] => text.match(/[\p{L}\p{N}]+/gu) ?? [];

describe('the documents of a run', () => {
  it('are the tree that the server has', QUICK, async () => {
    const documents = await documentsOf(done);
    const depth = (id: string | undefined): number => {
      const found = documents.find((d) => d.documentId === id);
      return found === undefined ? 0 : 1 + depth(found.parentId);
    };
    expect(documents.filter((d) => !d.parentId).map((d) => d.kind)).toEqual(['DOCUMENT_KIND_WORKSPACE']);
    const page = await open(browser, `${gateway.url}/runs/${done}?view=documents`);
    await connection(page, 'ended');
    const shown = await until(
      () => rows(page),
      (all) => all.length === documents.length,
      'all are there',
    );
    expect(new Map(shown.map((row) => [row.id, row.level]))).toEqual(
      new Map(documents.map((d) => [d.documentId, depth(d.documentId)])),
    );
    await close(page);
  });

  it('exist in the past once they were created, with the text that they had then', async () => {
    const documents = await documentsOf(done);
    const pad = documents.find((d) => d.kind === 'DOCUMENT_KIND_SCRATCHPAD' && d.title === 's0.s0')!;
    const page = await open(browser, `${gateway.url}/runs/${done}?view=documents&document=${pad.documentId}`);
    await connection(page, 'ended');
    const panel = page.getByTestId('document-panel');
    await panel
      .getByText(/written/)
      .first()
      .waitFor();
    for (const seq of [1, Math.floor(head / 4), Math.floor(head / 2), head - 5]) {
      await page.getByLabel('Event of the run').fill(String(seq));
      await until(
        () => shownSeq(page),
        (at) => at === seq,
        'the moment is shown',
      );
      const texts = await Promise.all(
        documents.map(async (d) => [d.documentId, await textAt(d.documentId, seq)] as const),
      );
      const existing = texts
        .filter(([, text]) => text !== undefined)
        .map(([id]) => id)
        .sort();
      await until(
        () => rows(page),
        (all) =>
          all
            .map((row) => row.id)
            .sort()
            .join() === existing.join(),
        `the documents at event ${seq}`,
      );
      const text = texts.find(([id]) => id === pad.documentId)![1];
      if (text === undefined)
        await page.getByText('The document did not exist yet at this moment of the run.').waitFor();
      else if (text === '') await panel.getByText('Nothing has been written yet.').waitFor();
      else {
        const body = panel.getByRole('region', { name: 'Text of the document' });
        await until(
          () => body.innerText(),
          (shown) => words(shown).join(' ').startsWith(words(text).join(' ')),
          `the text at event ${seq}`,
        );
      }
    }
    await close(page);
  });

  it('appear while the run is at work, and read on their node', async () => {
    const run = await gateway.run('Write for a while', 'scripted:fanout=3,depth=1,latency_ms=4000,notes=10');
    const page = await open(browser, `${gateway.url}/runs/${run}?view=documents`);
    await treeItem(page, /^Write for a while, Workspace/).waitFor();
    await treeItem(page, /^s2, Scratchpad, \S/).click();
    await page
      .getByTestId('document-panel')
      .getByText(/note \d+/)
      .first()
      .waitFor();
    await connection(page, 'ended');
    const documents = await documentsOf(run);
    await until(
      () => rows(page),
      (all) => all.length === documents.length,
      'all are there',
    );
    await page.getByTestId('document-panel').getByText('scripted: executed').waitFor();
    await page.getByRole('group', { name: 'Nodes of this document' }).getByRole('button', { name: 's2' }).click();
    await page.getByTestId('node-panel').getByRole('heading', { name: 's2' }).waitFor();
    await close(page);
  });
});
