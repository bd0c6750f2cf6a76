import { create } from '@bufbuild/protobuf';
import { describe, expect, it } from 'vitest';
import { NodeStatus, RunStatus } from '../src/gen/treeagent/v1/common_pb';
import {
  NodeAspect,
  NodeComparison,
  NodeDiffSchema,
  RunTotalsSchema,
  TextDiffSchema,
  type NodeDiff,
} from '../src/gen/treeagent/v1/run_diff_pb';
import { compareEntries, entryName } from '../src/lib/compare/list';
import { absent, differing, diffRows, sideSnapshot } from '../src/lib/compare/rows';
import { change, changes, tableRows, textWords } from '../src/lib/compare/words';
import { number } from '../src/lib/format';
import { Projection } from '../src/lib/projection/projection';

const totals = (title: string, costMicros = 0n, toolCalls = 0n) => ({
  nodeId: title,
  title,
  status: NodeStatus.COMPLETED,
  spending: { costMicros, toolCalls },
});
const diff = (depth: number, comparison: NodeComparison, more: object): NodeDiff =>
  create(NodeDiffSchema, { depth, comparison, ...more });
const NODES = [
  diff(0, NodeComparison.SAME, { a: totals('root'), b: totals('root') }),
  diff(1, NodeComparison.ONLY_A, { a: totals('gone') }),
  diff(2, NodeComparison.ONLY_A, { a: totals('gone below') }),
  diff(1, NodeComparison.CHANGED, {
    changes: [NodeAspect.RESULT, NodeAspect.COST, NodeAspect.TOOLS],
    a: totals('both', 10_000n, 3n),
    b: totals('both', 20_000n, 1n),
  }),
  diff(1, NodeComparison.SAME, { a: totals('calm'), b: totals('calm') }),
  diff(2, NodeComparison.ONLY_B, { b: totals('new') }),
];
const rows = diffRows(NODES);

describe('two runs as one tree', () => {
  it('has every node once, below the one that it stands below', () => {
    expect(rows.map((r) => [r.title, r.parentId, r.below])).toEqual([
      ['root', undefined, 4],
      ['gone', '0', 1],
      ['gone below', '1', 0],
      ['both', '0', 0],
      ['calm', '0', 1],
      ['new', '4', 0],
    ]);
    expect([[...absent(rows, 'a')], [...absent(rows, 'b')], [...differing(rows)]]).toEqual([[5], [1, 2], [1, 2, 3, 5]]);
  });

  it('gives both graphs the same nodes in the same places', () => {
    const [a, b] = (['a', 'b'] as const).map((side) => Projection.fromSnapshot(sideSnapshot(rows, side)));
    expect(a!.shape.parents).toEqual(b!.shape.parents);
    expect(a!.nodes.map((n) => n.title)).toEqual(rows.map((r) => r.title));
    expect(b!.nodes.map((n) => n.status)).toEqual([
      'completed',
      'waiting',
      'waiting',
      'completed',
      'completed',
      'completed',
    ]);
  });

  it('is listed with words, folded, and without what is the same', () => {
    const titles = (collapsed: string[], only: boolean) =>
      compareEntries(rows, new Set(collapsed), only).map((e) => `${e.level}.${e.place}/${e.siblings} ${e.row.title}`);
    expect(titles([], false)).toHaveLength(6);
    expect(titles(['1', '4'], false)).toEqual(['1.1/1 root', '2.1/3 gone', '2.2/3 both', '2.3/3 calm']);
    expect(compareEntries(diffRows(NODES.slice(0, 1)), new Set(), true)).toEqual([]);
    const names = compareEntries(rows, new Set(), true).map(entryName);
    expect(names[3]).toBe('Changed, both, result, cost $0.010 → $0.020, tools 3 → 1');
    expect(names[1]).toBe('Only in A, gone, completed, 1 differ below');
    expect(changes(rows[0]!)).toBe('');
  });
});

describe('the words of a comparison', () => {
  it('say how far two numbers are apart', () => {
    expect([
      change(3, 3, number),
      change(4000, 5000, number),
      change(15, 13, number),
      change(0, 2, number),
      change(undefined, 2, number),
    ]).toEqual(['=', '+1,000 (+25 %)', '-2 (-13 %)', '+2', '']);
  });

  it('put the runs side by side', () => {
    const run = (more: object) =>
      create(RunTotalsSchema, {
        status: RunStatus.COMPLETED,
        nodes: 8n,
        seq: 271n,
        spending: { costMicros: 40_000n, inputTokens: 4000n },
        ...more,
      });
    const table = tableRows(run({ durationMs: 62_000n }), run({ partial: true, nodes: 7n }));
    expect(table.slice(0, 5)).toEqual([
      { name: 'Outcome', a: 'completed', b: 'completed, partial', change: 'differs' },
      { name: 'Cost', a: '$0.040', b: '$0.040', change: '=' },
      { name: 'Tokens', a: '4,000', b: '4,000', change: '=' },
      { name: 'Time', a: '1 min 2 s', b: '–', change: '' },
      { name: 'Nodes', a: '8', b: '7', change: '-1 (-12 %)' },
    ]);
    expect(textWords(create(TextDiffSchema, {}))).toBe('The texts are the same.');
    expect(textWords(create(TextDiffSchema, { hunks: [{}], removed: 1n, added: 2n }))).toBe(
      '1 line removed, 2 lines added.',
    );
  });
});
