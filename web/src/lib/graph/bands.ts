// The order of bands: what is done first, and what then.

import type { Projection } from '../projection/projection';

const FIRST = 1;
const THEN = 2;

/**
 * For each node: 1 if it is the first of a family with several bands, 2 if it begins another band than the sibling
 * before it is in, else 0. The name of its band stands above each of them.
 */
export function bandsOf({ nodes, shape }: Projection): Uint8Array {
  const bands = new Uint8Array(nodes.length);
  const latest = new Int32Array(nodes.length).fill(-1);
  for (const [at, { bandIndex, task }] of nodes.entries()) {
    const parent = shape.parents[at]!;
    if (parent < 0 || bandIndex === undefined || task !== undefined) continue;
    const isFirst = latest[parent]! < 0;
    const isAlone = isFirst && (nodes[parent]!.plan?.bands.length ?? 0) < 2;
    if (latest[parent] !== bandIndex && !isAlone) bands[at] = isFirst ? FIRST : THEN;
    latest[parent] = bandIndex;
  }
  return bands;
}

/** What stands above a node that begins a band; undefined for other nodes. */
export function bandWords(graph: Projection, bands: Uint8Array, at: number): string | undefined {
  if (!bands[at]) return undefined;
  const node = graph.nodes[at]!;
  const goal = graph.node(node.parentId ?? '')?.plan?.bands[node.bandIndex!]?.goal ?? '';
  return `${bands[at] === FIRST ? 'first' : 'then'}${goal === '' ? '' : `: ${goal}`}`;
}
