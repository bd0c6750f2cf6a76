// Links of an overview to the topics of its search, `a/b/document.md`: paths of steps below the root.

import type { GraphNode } from './projection/model';

export interface Topics {
  /** The node whose document is at `href`. */
  find: (href: string) => string | undefined;
  open: (nodeId: string) => void;
}

export function findTopic(nodes: readonly GraphNode[], href: string): string | undefined {
  let at = nodes[0]?.id;
  for (const step of href.split('/').slice(0, -1)) {
    at = nodes.find((node) => node.parentId === at && node.stepId === step)?.id;
    if (at === undefined) return undefined;
  }
  return at;
}
