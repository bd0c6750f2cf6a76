// The nodes of two runs as one tree: the answer of DiffRuns, and the same tree for the graph of each run. A node that
// only one run has keeps its place in the other, so that both graphs have the same layout.

import { NodeComparison, type NodeDiff, type NodeTotals } from '../../gen/treeagent/v1/run_diff_pb';
import { NO_USAGE, type GraphNode, type GraphSnapshot } from '../projection/model';
import { nodeStatus, tidy } from '../projection/wire';

export type Comparison = 'same' | 'changed' | 'only-a' | 'only-b';
export type Side = 'a' | 'b';

export interface DiffRow {
  /** Of this row, in both graphs. */
  id: string;
  parentId: string | undefined;
  depth: number;
  comparison: Comparison;
  title: string;
  diff: NodeDiff;
  /** Rows below it that differ. */
  below: number;
}

const KINDS: Partial<Record<NodeComparison, Comparison>> = {
  [NodeComparison.CHANGED]: 'changed',
  [NodeComparison.ONLY_A]: 'only-a',
  [NodeComparison.ONLY_B]: 'only-b',
};

/** The rows in the order of the answer, in which a node follows the one above it. */
export function diffRows(nodes: readonly NodeDiff[]): DiffRow[] {
  const rows: DiffRow[] = [];
  /** The latest row of each depth. */
  const line: DiffRow[] = [];
  for (const [at, diff] of nodes.entries()) {
    const depth = Math.min(diff.depth, line.length);
    line.length = depth;
    const row: DiffRow = {
      id: String(at),
      parentId: line.at(-1)?.id,
      depth,
      comparison: KINDS[diff.comparison] ?? 'same',
      title: (diff.b ?? diff.a)?.title ?? '',
      diff,
      below: 0,
    };
    if (row.comparison !== 'same') for (const above of line) above.below += 1;
    rows.push(row);
    line.push(row);
  }
  return rows;
}

/** The node of a row in one of the runs. */
export const of = (row: DiffRow, side: Side): NodeTotals | undefined => row.diff[side];

/** The tree for the graph of one run. Nodes that it does not have are there, too; `isAbsent` tells which. */
export function sideSnapshot(rows: readonly DiffRow[], side: Side): GraphSnapshot {
  const nodes = rows.map((row): GraphNode => {
    const totals = of(row, side);
    const other = of(row, side === 'a' ? 'b' : 'a');
    return tidy<GraphNode>({
      id: row.id,
      parentId: row.parentId,
      title: (totals ?? other)?.title ?? '',
      reason: '',
      successCriteria: [],
      status: totals === undefined ? 'waiting' : nodeStatus(totals.status),
      role: 'executor',
      depth: row.depth,
      artifacts: [],
      usage: NO_USAGE,
      subtreeUsage: NO_USAGE,
      createdAt: 0,
    });
  });
  return { runId: side, seq: 1, status: 'completed', partial: false, nodes };
}

/** Positions of the rows that a run does not have. */
export function absent(rows: readonly DiffRow[], side: Side): ReadonlySet<number> {
  return new Set(rows.flatMap((row, at) => (of(row, side) === undefined ? [at] : [])));
}

/** Positions of the rows that differ. */
export const differing = (rows: readonly DiffRow[]): ReadonlySet<number> =>
  new Set(rows.flatMap((row, at) => (row.comparison === 'same' ? [] : [at])));
