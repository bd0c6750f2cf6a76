// In which order a guided search picked its topics.

import type { GraphNode } from './projection/model';

/** The place of a node among the picked topics, from 1; undefined if it was not picked. */
export type PickNumber = (node: GraphNode) => number | undefined;

/** A topic begins when it is picked. Most runs have no topics, so the places are counted when one is asked for. */
export function pickNumbers(nodes: readonly GraphNode[]): PickNumber {
  let known: Map<string, number> | undefined;
  const count = (): Map<string, number> => {
    const picked = nodes.filter((node) => node.topic?.picked !== undefined);
    picked.sort((a, b) => (a.startedAt ?? Infinity) - (b.startedAt ?? Infinity));
    return new Map(picked.map((node, i) => [node.id, i + 1]));
  };
  return (node) => (node.topic?.picked === undefined ? undefined : (known ??= count()).get(node.id));
}
