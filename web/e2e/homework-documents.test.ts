// The documents of homework, and of runs with thousands of documents: made-up logs, against a gateway that replays
// them.

import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { NodeStatus } from '../src/gen/treeagent/v1/common_pb';
import { DocumentKind } from '../src/gen/treeagent/v1/document_service_pb';
import { launch } from './browser';
import { Log, nodeId, runId } from './logs';
import { MockGateway } from './mock';
import { MockDocument } from './mock-documents';
import { close, connection, open, streams, treeItem, until } from './page';

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

/** Homework in its first iteration, and what makes more of it. */
class Homework {
  readonly log: Log;
  readonly #id: (name: string) => string;

  constructor(n: number) {
    this.log = gateway.add(new Log(runId(n), 'Study the tides'));
    this.#id = (name) => `${n}-${name}`;
    const root = this.log.node(-1, 'Study the tides');
    this.log.add(root, { case: 'scratchpadLinked', value: { scratchpadDocId: this.#id('main') } });
    const { head } = this.log;
    this.#add('workspace', '', DocumentKind.HOMEWORK_WORKSPACE, 'Study the tides').write(1, '# Study the tides');
    this.#add('main', 'workspace', DocumentKind.HOMEWORK_SCRATCHPAD, 'Study the tides', {
      nodeId: nodeId(root),
      docRole: 'scratchpad_root',
      owner: 'planner',
    }).write(head, '');
    this.#add('plan', 'workspace', DocumentKind.HOMEWORK_PLAN, 'Plan: Study the tides', {
      nodeId: nodeId(root),
      docRole: 'plan',
      owner: 'planner',
    }).write(1, 'There is no plan yet.');
  }

  #add(name: string, parent: string, kind: DocumentKind, title: string, more: object = {}): MockDocument {
    const document = new MockDocument({
      documentId: this.#id(name),
      runId: this.log.run,
      parentId: parent === '' ? '' : this.#id(parent),
      kind,
      title,
      ...more,
    });
    gateway.documents.push(document);
    return document;
  }

  id(name: string): string {
    return this.#id(name);
  }

  find(name: string): MockDocument {
    return gateway.documents.find(({ summary }) => summary.documentId === this.#id(name))!;
  }

  note(node: number, document: string, text: string): void {
    this.log.add(node, {
      case: 'scratchpadUpdated',
      value: { scratchpadDocId: this.#id(document), tailPreview: text },
    });
    this.find(document).write(this.log.head, text);
  }

  /** A task of a branch, which begins with its first task. */
  task(branch: string, iteration: number, title: string): number {
    const node = this.log.node(0, title);
    this.log.add(node, { case: 'scratchpadLinked', value: { scratchpadDocId: this.#id(branch) } });
    if (this.find(branch) === undefined)
      this.#add(branch, 'main', DocumentKind.HOMEWORK_BRANCH, title, {
        nodeId: nodeId(0),
        docRole: 'scratchpad_exec',
        branchId: branch,
        iteration,
        owner: 'executor',
      }).write(this.log.head, '');
    this.log.status(node, NodeStatus.EXECUTING);
    return node;
  }

  plan(iteration: number, text: string): number {
    this.log.add(0, { case: 'planDocumentUpdated', value: { documentId: this.#id('plan'), iteration } });
    this.find('plan').write(this.log.head, text, true);
    return this.log.head;
  }

  rollUp(iteration: number, text: string): void {
    const summaryDocumentId = this.#id(`iteration-${iteration}`);
    this.log.add(0, {
      case: 'rollupUpdated',
      value: { documentId: this.#id('main'), iteration, summary: text, summaryDocumentId },
    });
    this.#add(`iteration-${iteration}`, 'main', DocumentKind.HOMEWORK_SUMMARY, `Iteration ${iteration}`, {
      nodeId: nodeId(0),
      iteration,
      owner: 'planner',
    }).write(this.log.head, text);
  }
}

const names = (page: Awaited<ReturnType<typeof open>>): Promise<(string | null)[]> =>
  page
    .getByRole('tree', { name: 'Documents of the run' })
    .getByRole('treeitem')
    .evaluateAll((all) => all.map((e) => `${e.getAttribute('aria-level')} ${e.getAttribute('aria-label')}`));

describe('the documents of homework', () => {
  it('are a tree with the last entry of each branch, and follow the run without polling', async () => {
    const work = new Homework(700);
    const first = work.task('storage', 1, 'Look at storage');
    work.note(first, 'storage', '## Found\n\n- pages are 8 KiB\n');
    const page = await open(browser, `${url}/runs/${work.log.run}`);
    const lists: string[] = [];
    page.on('request', (request) => request.url().endsWith('/ListDocuments') && lists.push(request.url()));
    const seen = streams(page);
    await connection(page, 'live');
    await page.keyboard.press('d');
    await treeItem(page, /^Look at storage, Branch/).waitFor();
    expect(await names(page)).toEqual([
      '1 Study the tides, Workspace',
      '2 Study the tides, Main scratchpad',
      '3 Look at storage, Branch · storage · iteration 1, pages are 8 KiB',
      '2 Plan: Study the tides, Plan',
    ]);
    expect(lists).toHaveLength(1);
    // A note is shown from the run's events alone. New documents are read once for all of them.
    work.note(first, 'storage', 'they are checked\n');
    gateway.publish();
    await treeItem(page, /they are checked$/).waitFor();
    expect(lists).toHaveLength(1);
    expect(seen.read).toBe(0);
    const second = work.task('memory', 1, 'Look at memory');
    work.note(second, 'memory', 'caches are small\n');
    work.rollUp(1, 'Storage and memory are known.');
    gateway.publish();
    await treeItem(page, /^Iteration 1,/).waitFor();
    await treeItem(page, /^Look at memory, Branch · memory · iteration 1, caches are small/).waitFor();
    expect(lists).toHaveLength(2);
    await close(page);
  });

  it('are shown as they are written, and lead to their nodes and back', async () => {
    const work = new Homework(701);
    const task = work.task('storage', 1, 'Look at storage');
    work.note(task, 'storage', 'pages are 8 KiB\n');
    const page = await open(browser, `${url}/runs/${work.log.run}?view=documents`);
    await connection(page, 'live');
    await treeItem(page, /^Look at storage,/).click();
    const panel = page.getByTestId('document-panel');
    await panel.getByText('pages are 8 KiB').waitFor();
    for (const text of ['Branch', 'storage', 'iteration 1', 'written by the executor'])
      await panel.getByText(text, { exact: true }).first().waitFor();
    expect(await panel.getByRole('navigation').getByRole('button').count()).toBe(2);
    work.note(task, 'storage', 'and checked');
    gateway.publish();
    await panel.getByText('and checked').waitFor();
    await panel
      .getByRole('group', { name: 'Nodes of this document' })
      .getByRole('button', { name: 'Look at storage' })
      .click();
    await page.getByTestId('node-panel').getByRole('heading', { name: 'Look at storage' }).waitFor();
    await page.keyboard.press('s');
    await page.getByTestId('scratchpad').getByText('and checked').waitFor();
    await page.getByRole('button', { name: 'Show among the documents' }).click();
    await panel.getByText('and checked').waitFor();
    // A reload restores the tree and the document.
    await page.reload();
    await panel.getByText('and checked').waitFor();
    expect(await treeItem(page, /^Look at storage,/).getAttribute('aria-selected')).toBe('true');
    await panel.getByRole('navigation').getByRole('button').last().click();
    await panel.getByText('Main scratchpad', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Close document' }).click();
    await page.getByText('No document selected').waitFor();
    await close(page);
  });

  it('are those of the moment that is shown, whole', async () => {
    const work = new Homework(702);
    const task = work.task('storage', 1, 'Look at storage');
    work.note(task, 'storage', `the beginning ${'x'.repeat(2000)}\n\n`);
    const early = work.log.head;
    work.note(task, 'storage', 'the end\n\n');
    work.rollUp(1, 'All is known.');
    work.log.end();
    const page = await open(
      browser,
      `${url}/runs/${work.log.run}?view=documents&document=${work.id('storage')}&seq=${early}`,
    );
    const panel = page.getByTestId('document-panel');
    await panel.getByText('the beginning').waitFor();
    await panel.getByText(`As of event ${early}`).waitFor();
    expect(await panel.getByText('the end').count()).toBe(0);
    expect(await treeItem(page, /^Iteration 1,/).count()).toBe(0);
    await page.keyboard.press(']');
    await panel.getByText('the end').waitFor();
    await panel.getByText('the beginning').waitFor();
    await page.keyboard.press(']');
    await treeItem(page, /^Iteration 1,/).waitFor();
    await page.getByLabel('Event of the run').fill('4');
    await panel.waitFor({ state: 'detached' });
    await page.getByText('The document did not exist yet at this moment of the run.').waitFor();
    expect(await treeItem(page, /^Look at storage,/).count()).toBe(0);
    await page.keyboard.press('l');
    await panel.getByText('the end').waitFor();
    // The scratchpad of the node, too.
    await page.goto(`${url}/runs/${work.log.run}?node=${nodeId(task)}&tab=scratchpad&seq=${early}`);
    const scratchpad = page.getByTestId('scratchpad');
    await scratchpad.getByText('the beginning').waitFor();
    expect(await scratchpad.getByText('the end').count()).toBe(0);
    await close(page);
  });

  it('have versions, if they are replaced: the plan', async () => {
    const work = new Homework(703);
    work.plan(1, '# First plan\n\nLook at storage.');
    const page = await open(browser, `${url}/runs/${work.log.run}?view=documents`);
    await connection(page, 'live');
    await treeItem(page, /^Plan:/).click();
    const panel = page.getByTestId('document-panel');
    await panel.getByRole('heading', { name: 'First plan' }).waitFor();
    const second = work.plan(2, '# Second plan\n\nLook at memory.');
    gateway.publish();
    await panel.getByRole('heading', { name: 'Second plan' }).waitFor();
    expect(await panel.getByText('Look at storage.').count()).toBe(0);
    const choice = panel.getByLabel('Version');
    await until(
      () => choice.locator('option').count(),
      (n) => n === 4,
      'three versions and now',
    );
    const options = await choice.locator('option').allInnerTexts();
    expect(options[0]).toBe('Now');
    expect(options.slice(1).map((text) => text.split(' · ')[0])).toEqual(['Version 3', 'Version 2', 'Version 1']);
    await choice.selectOption({ index: 2 });
    await panel.getByRole('heading', { name: 'First plan' }).waitFor();
    await panel.getByTestId('document-moment').waitFor();
    await choice.selectOption('');
    await panel.getByRole('heading', { name: 'Second plan' }).waitFor();
    await page.getByLabel('Event of the run').fill(String(second - 1));
    await panel.getByRole('heading', { name: 'First plan' }).waitFor();
    await until(
      () => choice.locator('option').count(),
      (n) => n === 3,
      'only the versions until then',
    );
    await close(page);
  });

  it('fit 360 pixels: the tree, or one document', async () => {
    const work = new Homework(704);
    const task = work.task('storage', 1, 'Look at storage');
    work.note(task, 'storage', 'pages are 8 KiB\n');
    const page = await open(browser, `${url}/runs/${work.log.run}`, { viewport: { width: 360, height: 740 } });
    await connection(page, 'live');
    await page.getByRole('button', { name: 'Documents', exact: true }).click();
    await treeItem(page, /^Look at storage,/).click();
    await page.getByTestId('document-panel').getByText('pages are 8 KiB').waitFor();
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(360);
    await page.getByRole('button', { name: 'Close document' }).click();
    await treeItem(page, /^Look at storage,/).waitFor();
    await treeItem(page, /^Look at storage,/).click();
    await page.getByRole('group', { name: 'Nodes of this document' }).getByRole('button').first().click();
    await page.getByTestId('node-panel').waitFor();
    await close(page);
  });
});

describe('a run with thousands of documents', () => {
  it('is listed page by page, holds few elements, and is walked by keyboard to its end', async () => {
    const MANY = 3500;
    const log = gateway.add(new Log(runId(710), 'A run of many documents'));
    gateway.documents.push(
      new MockDocument({
        documentId: 'many',
        runId: log.run,
        kind: DocumentKind.WORKSPACE,
        title: 'Workspace of many',
      }).write(1, '# Many'),
    );
    log.node(-1, 'Root');
    for (let n = 0; n < MANY; n++) {
      const id = `many-${n}`;
      const node = n === 0 ? 0 : log.node(0, `Task ${n}`);
      log.add(node, { case: 'scratchpadLinked', value: { scratchpadDocId: id } });
      gateway.documents.push(
        new MockDocument({
          documentId: id,
          runId: log.run,
          parentId: n === 0 ? 'many' : 'many-0',
          kind: DocumentKind.SCRATCHPAD,
          title: `Task ${n}`,
          nodeId: nodeId(node),
        }).write(log.head, `Text ${n}`),
      );
    }
    log.end();
    const page = await open(browser, `${url}/runs/${log.run}?view=documents`);
    await until(
      () => page.getByTestId('document-tree').getAttribute('data-count'),
      (n) => n === String(MANY + 1),
      'all are listed',
    );
    expect(await page.getByRole('treeitem').count()).toBeLessThan(120);
    await page.keyboard.press('t');
    await page.locator('[role=treeitem]:focus').waitFor();
    await page.keyboard.press('End');
    const last = treeItem(page, new RegExp(`^Task ${MANY - 1},`));
    await last.and(page.locator(':focus')).waitFor();
    expect([
      await last.getAttribute('aria-level'),
      await last.getAttribute('aria-posinset'),
      await last.getAttribute('aria-setsize'),
    ]).toEqual(['3', String(MANY - 1), String(MANY - 1)]);
    await page.keyboard.press('Enter');
    await page
      .getByTestId('document-panel')
      .getByText(`Text ${MANY - 1}`, { exact: true })
      .waitFor();
    await page.keyboard.press('ArrowLeft');
    await treeItem(page, /^Task 0,/)
      .and(page.locator(':focus'))
      .waitFor();
    await page.keyboard.press('ArrowLeft');
    await until(
      () => page.getByRole('treeitem').count(),
      (n) => n === 2,
      'it is closed',
    );
    await close(page);
  });
});
