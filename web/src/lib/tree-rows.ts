// The expanded part of the tree as rows, in reading order.

import type { Projection } from './projection/projection';
import type { TreeEntry } from './tree-entry';

export interface TreeRow extends TreeEntry {
  /** The node's position in order of creation. */
  at: number;
  /** With a filter: the row does not match and only leads to rows that do. */
  faded: boolean;
  /** Failed descendants that are collapsed. */
  failedBelow: number;
  /** The iteration of homework whose tasks begin with this row. */
  iteration?: number;
}

/** What the rows depend on. The contents of nodes are not part of it, so most events change no row. */
export function rowsKey(
  graph: Projection,
  collapsed: ReadonlySet<string>,
  matches: ReadonlySet<number> | undefined,
): unknown[] {
  const failed = collapsed.size > 0 ? graph.stats.byStatus.failed : 0;
  return [graph.shape, graph.nodes.length, collapsed, matches, failed];
}

/** With a filter, only matches and their ancestors are rows. */
export function treeRows(
  graph: Projection,
  collapsed: ReadonlySet<string>,
  matches: ReadonlySet<number> | undefined,
): TreeRow[] {
  const { nodes, shape } = graph;
  if (nodes.length === 0) return [];
  const keep = matches === undefined ? undefined : leading(matches, shape.parents);
  const failed = collapsed.size > 0 ? failuresBelow(graph) : undefined;
  const rows: TreeRow[] = [];
  const stack: { at: number; place: number; siblings: number; iteration?: number }[] = [
    { at: 0, place: 1, siblings: 1 },
  ];
  while (stack.length > 0) {
    const { at, place, siblings, iteration } = stack.pop()!;
    const id = shape.ids[at]!;
    const all = graph.childrenOf(at);
    const kids = keep === undefined ? all : all.filter((c) => keep.has(c));
    const expanded = kids.length === 0 ? undefined : !collapsed.has(id) || keep !== undefined;
    const row: TreeRow = {
      at,
      id,
      parentId: shape.ids[shape.parents[at]!],
      level: nodes[at]!.depth + 1,
      place,
      siblings,
      faded: matches !== undefined && !matches.has(at),
      failedBelow: expanded === false ? (failed?.[at] ?? 0) : 0,
    };
    if (expanded !== undefined) row.expanded = expanded;
    if (iteration !== undefined) row.iteration = iteration;
    if (keep === undefined || keep.has(at)) rows.push(row);
    if (expanded !== true) continue;
    for (let c = kids.length - 1; c >= 0; c--) {
      const iteration = nodes[kids[c]!]!.task?.iteration;
      const begins = iteration !== undefined && (c === 0 || nodes[kids[c - 1]!]!.task?.iteration !== iteration);
      stack.push({ at: kids[c]!, place: c + 1, siblings: kids.length, ...(begins && { iteration }) });
    }
  }
  return rows;
}

function leading(matches: ReadonlySet<number>, parents: readonly number[]): Set<number> {
  const keep = new Set<number>();
  for (const match of matches) for (let at = match; at >= 0 && !keep.has(at); at = parents[at]!) keep.add(at);
  return keep;
}

/** The number of failed descendants of each node. */
function failuresBelow(graph: Projection): Int32Array {
  const sums = new Int32Array(graph.nodes.length);
  for (let at = graph.nodes.length - 1; at > 0; at--) {
    const parent = graph.shape.parents[at]!;
    if (parent >= 0) sums[parent]! += sums[at]! + (graph.nodes[at]!.status === 'failed' ? 1 : 0);
  }
  return sums;
}
