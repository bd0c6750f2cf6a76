// The order of bands: what is done first, and what then.

import type { Plan } from '../projection/model';
import type { Projection } from '../projection/projection';

const FIRST = 1;
const THEN = 2;

/**
 * For each node: 1 if it is the first of a family with several bands, 2 if it begins another band, or the work of
 * another plan, than the sibling before it, else 0. The name of its band stands above each of them.
 */
export function bandsOf({ nodes, shape }: Projection): Uint8Array {
  const bands = new Uint8Array(nodes.length);
  const latest = new Map<number, string>();
  const planned = nodes.map(({ plan }) => (plan === undefined ? undefined : stepsOf(plan)));
  for (const [at, { id, bandIndex, task }] of nodes.entries()) {
    const parent = shape.parents[at]!;
    if (parent < 0 || bandIndex === undefined || task !== undefined) continue;
    const before = latest.get(parent);
    const band = `${planned[parent]?.has(id)} ${bandIndex}`;
    const isAlone = before === undefined && (nodes[parent]!.plan?.bands.length ?? 0) < 2;
    if (before !== band && !isAlone) bands[at] = before === undefined ? FIRST : THEN;
    latest.set(parent, band);
  }
  return bands;
}

const stepsOf = ({ bands }: Plan): Set<string | undefined> =>
  new Set(bands.flatMap((band) => band.steps.map((step) => step.nodeId)));

/** What stands above a node that begins a band; undefined for other nodes. */
export function bandWords(graph: Projection, bands: Uint8Array, at: number): string | undefined {
  if (!bands[at]) return undefined;
  const node = graph.nodes[at]!;
  const band = graph.node(node.parentId ?? '')?.plan?.bands[node.bandIndex!];
  // After a new plan, the band of that number is another one.
  const goal = band?.steps.some((step) => step.nodeId === node.id) ? band.goal : '';
  return `${bands[at] === FIRST ? 'first' : 'then'}${goal === '' ? '' : `: ${goal}`}`;
}
