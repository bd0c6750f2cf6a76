// Which nodes match a search and the quick filters.

import { ACTIVE_STATUSES, type GraphNode } from './projection/model';

export type Quick = 'all' | 'active' | 'failed' | 'blocked';

export interface Filter {
  /** Lower case, trimmed. */
  query: string;
  quick: Quick;
}

function fits(node: GraphNode, quick: Quick): boolean {
  switch (quick) {
    case 'all':
      return true;
    case 'active':
      return ACTIVE_STATUSES.has(node.status);
    default:
      return node.status === quick;
  }
}

/** Searches title, tool, error and scratchpad: the end that events carry, and the whole text where it was read. */
function says(node: GraphNode, query: string, scratchpads: ReadonlyMap<string, string>): boolean {
  const has = (text: string | undefined): boolean => text !== undefined && text.toLowerCase().includes(query);
  return (
    has(node.title) ||
    has(node.lastTool?.toolName) ||
    has(node.error) ||
    has(node.message) ||
    has(node.scratchpadTail) ||
    node.id === query ||
    (node.scratchpadDocId !== undefined && has(scratchpads.get(node.scratchpadDocId)))
  );
}

export function filterNodes(
  nodes: readonly GraphNode[],
  filter: Filter,
  scratchpads: ReadonlyMap<string, string> = new Map(),
): Set<number> {
  const found = new Set<number>();
  for (const [at, node] of nodes.entries()) {
    if (fits(node, filter.quick) && (filter.query === '' || says(node, filter.query, scratchpads))) found.add(at);
  }
  return found;
}
