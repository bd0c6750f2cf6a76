// Which commands make sense for a run and for a node at the moment. The server decides in the end.

import { FINAL, isFinalRun, type GraphNode } from '../projection/model';
import type { Projection } from '../projection/projection';
import type { OnNode } from './fork-edits';

/** A dialog that is open. */
export type Command =
  | { kind: 'pause' | 'resume' | 'stop' | 'budget'; nodeId: string }
  | { kind: 'guide' | 'retry' | 'plan'; nodeId: string }
  | { kind: 'fork'; atSeq: number; nodeId: string | undefined; onNode: OnNode };

/** The commands that are about a node, or about the whole run as its root. */
export type Kind = Exclude<Command['kind'], 'fork'>;

/** The nearest node at or above this one that is paused, while this one has not ended. */
export function pausedBy(graph: Projection, node: GraphNode): GraphNode | undefined {
  if (FINAL.has(node.status)) return undefined;
  let at: GraphNode | undefined = node;
  while (at !== undefined && at.paused !== true) at = at.parentId === undefined ? undefined : graph.node(at.parentId);
  return at;
}

/** True if the node, or one above it, is stopped. */
function isStopped(graph: Projection, node: GraphNode): boolean {
  let at: GraphNode | undefined = node;
  while (at !== undefined && at.stopped !== true) at = at.parentId === undefined ? undefined : graph.node(at.parentId);
  return at !== undefined;
}

/** The commands about one node, in the order of their buttons. */
export function offers(graph: Projection, node: GraphNode): Kind[] {
  const ended = isFinalRun(graph.status);
  // What a budget has cancelled goes on with more of it.
  if (FINAL.has(node.status)) {
    const kinds: Kind[] = ['retry'];
    // In a fork.
    if (node.plan !== undefined) kinds.push('plan');
    if (!ended && node.message?.startsWith('budget:') === true) kinds.push('budget');
    return kinds;
  }
  if (ended) return [];
  const kinds: Kind[] = [node.paused === true ? 'resume' : 'pause', 'guide'];
  if (!isStopped(graph, node)) {
    kinds.push('stop');
    if (node.status === 'waiting' && node.plan !== undefined) kinds.push('plan');
    kinds.push('budget');
  }
  return kinds;
}
