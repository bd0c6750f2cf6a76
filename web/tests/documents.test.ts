import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { describe, expect, it } from 'vitest';
import { DocumentKind, DocumentSummarySchema } from '../src/gen/treeagent/v1/document_service_pb';
import { EventSchema } from '../src/gen/treeagent/v1/events_pb';
import { factsOf, lastEntry } from '../src/lib/document-kinds';
import { DocumentLog, documentsOf } from '../src/lib/document-log';
import { DocumentTree, nodeRow } from '../src/lib/document-tree';
import { History } from '../src/lib/projection/history';
import { Shape } from '../src/lib/projection/shape';
import { fixtures } from './fixtures';

const NODES = ['n0', 'n1', 'n2'];
const order = { position: (id: string) => NODES.indexOf(id) };
type Init = MessageInitShape<typeof DocumentSummarySchema>;
const doc = (documentId: string, parentId: string, kind: DocumentKind, more: Init = {}) =>
  create(DocumentSummarySchema, { documentId, parentId, kind, title: documentId, ...more });
const {
  HOMEWORK_WORKSPACE,
  HOMEWORK_SCRATCHPAD,
  HOMEWORK_PLAN,
  HOMEWORK_BRANCH,
  HOMEWORK_SUMMARY,
  SCRATCHPAD,
  ARTIFACT,
} = DocumentKind;

const shape = (tree: DocumentTree, closed: string[] = []) =>
  tree.rows(new Set(closed)).map((r) => `${'  '.repeat(r.level - 1)}${r.id} ${r.place}/${r.siblings}`);

describe('the tree of the documents of a run', () => {
  const homework = [
    doc('late', 'main', HOMEWORK_BRANCH, { iteration: 2, branchId: 'b' }),
    doc('iteration 10', 'main', HOMEWORK_SUMMARY, { iteration: 10 }),
    doc('iteration 2', 'main', HOMEWORK_SUMMARY, { iteration: 2 }),
    doc('plan', 'workspace', HOMEWORK_PLAN, { nodeId: 'n0' }),
    doc('early', 'main', HOMEWORK_BRANCH, { iteration: 1, branchId: 'a' }),
    doc('note', 'early', ARTIFACT, { nodeId: 'n1' }),
    doc('main', 'workspace', HOMEWORK_SCRATCHPAD, { nodeId: 'n0' }),
    doc('workspace', '', HOMEWORK_WORKSPACE),
  ];

  it('has each document below the one that its run linked it to, in the order in which one reads', () => {
    expect(shape(new DocumentTree(homework, order))).toEqual([
      'workspace 1/1',
      '  main 1/2',
      '    early 1/4',
      '      note 1/1',
      '    late 2/4',
      '    iteration 2 3/4',
      '    iteration 10 4/4',
      '  plan 2/2',
    ]);
    const tree = new DocumentTree(homework, order);
    expect(tree.path('note').map((d) => d.documentId)).toEqual(['workspace', 'main', 'early']);
    expect(shape(tree, ['main'])).toEqual(['workspace 1/1', '  main 1/2', '  plan 2/2']);
    expect(tree.rows(new Set(['main']))[1]).toMatchObject({ id: 'main', parentId: 'workspace', expanded: false });
  });

  it('has documents of old runs below their nodes, in order of creation', () => {
    const old = [
      doc('second', '', SCRATCHPAD, { nodeId: 'n2' }),
      doc('answer', '', ARTIFACT, { nodeId: 'n0' }),
      doc('first', '', SCRATCHPAD, { nodeId: 'n0' }),
      doc('stray', '', ARTIFACT),
    ];
    expect(shape(new DocumentTree(old, order))).toEqual([
      'stray 1/3',
      `${nodeRow('n0')} 2/3`,
      '  answer 1/2',
      '  first 2/2',
      `${nodeRow('n2')} 3/3`,
      '  second 1/1',
    ]);
  });

  it('stays finite, whatever a server says', () => {
    const odd = [
      doc('a', 'b', SCRATCHPAD),
      doc('b', 'a', SCRATCHPAD),
      doc('c', 'c', SCRATCHPAD),
      doc('d', 'gone', SCRATCHPAD),
    ];
    const tree = new DocumentTree(odd, order);
    expect(shape(tree)).toEqual(['d 1/1']);
    expect(tree.path('a').length).toBeLessThanOrEqual(odd.length + 1);
  });

  it('takes deep trees', () => {
    const deep = Array.from({ length: 20_000 }, (_, i) => doc(`d${i}`, i === 0 ? '' : `d${i - 1}`, SCRATCHPAD));
    expect(new DocumentTree(deep, order).rows(new Set()).at(-1)).toMatchObject({ id: 'd19999', level: 20_000 });
  });
});

describe('what the log says about documents', () => {
  it('is when each was created and when it changed', () => {
    for (const { events } of fixtures()) {
      const history = new History(events[0]!.runId, new Shape(), 0);
      for (const event of events) history.append(event);
      const log = new DocumentLog();
      log.read(history);
      log.read(history);
      const ids = new Set(events.flatMap(documentsOf));
      expect(ids.size).toBeGreaterThan(0);
      for (const id of ids) {
        const seqs = events.filter((e) => documentsOf(e).includes(id)).map((e) => Number(e.seq));
        expect(log.created(id)).toBe(seqs[0]);
        expect(log.changed(id, seqs[0]! - 1)).toBeUndefined();
        expect(log.changed(id, Infinity)).toBe(seqs.at(-1));
      }
    }
  });

  it('knows the documents of homework', () => {
    const event = (body: NonNullable<MessageInitShape<typeof EventSchema>['body']>) => create(EventSchema, { body });
    expect(documentsOf(event({ case: 'planDocumentUpdated', value: { documentId: 'plan' } }))).toEqual(['plan']);
    expect(
      documentsOf(event({ case: 'rollupUpdated', value: { documentId: 'main', summaryDocumentId: 'summary' } })),
    ).toEqual(['main', 'summary']);
    expect(documentsOf(event({ case: 'rollupUpdated', value: { documentId: 'main' } }))).toEqual(['main']);
  });
});

describe('a document in words', () => {
  it('says what it is, its branch and its iteration', () => {
    expect(factsOf(doc('x', '', HOMEWORK_BRANCH, { branchId: 'storage', iteration: 2 }))).toEqual([
      'Branch',
      'storage',
      'iteration 2',
    ]);
    expect(factsOf(doc('x', '', ARTIFACT, { branchId: 'storage' }))).toEqual(['Artifact', 'branch storage']);
    expect(factsOf(doc('x', '', SCRATCHPAD))).toEqual(['Scratchpad']);
  });

  it('shows the last line of a scratchpad that says something', () => {
    expect(lastEntry('## Found\n\n- **pages** are 8 KiB\n\n---\n')).toBe('pages are 8 KiB');
    expect(lastEntry('Gezeiten – שלום')).toBe('Gezeiten – שלום');
    expect(lastEntry('')).toBe('');
  });
});
