// In which order a guided search picked its topics.

import type { GraphNode } from './projection/model';

/** The place of each picked topic, from 1. A topic begins when it is picked. */
export function pickNumbers(nodes: readonly GraphNode[]): Map<string, number> {
  const picked = nodes.filter((node) => node.topic?.picked !== undefined);
  picked.sort((a, b) => (a.startedAt ?? Infinity) - (b.startedAt ?? Infinity));
  return new Map(picked.map((node, i) => [node.id, i + 1]));
}
