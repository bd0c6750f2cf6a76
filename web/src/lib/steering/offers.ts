// Which commands make sense for a run and for a node at the moment. The server decides in the end.

import { FINAL, isFinalRun, type GraphNode } from '../projection/model';
import type { Projection } from '../projection/projection';
import type { RunState } from '../run-state.svelte';
import type { OnNode } from './fork-edits';

/** The commands that are about a node, or about the whole run as its root. */
export type Kind = 'pause' | 'resume' | 'guide' | 'stop' | 'retry' | 'plan' | 'budget';

export const KIND_LOOKS: Record<Kind | 'cancel', { label: string; icon: string }> = {
  pause: { label: 'Pause', icon: 'pause' },
  resume: { label: 'Resume', icon: 'play' },
  guide: { label: 'Guide', icon: 'note' },
  stop: { label: 'Stop', icon: 'stop' },
  retry: { label: 'Retry', icon: 'again' },
  plan: { label: 'Edit plan', icon: 'edit' },
  budget: { label: 'Budget', icon: 'coin' },
  cancel: { label: 'Cancel', icon: 'stop' },
};

/** A dialog that is open. Resuming has none. */
export type Command =
  | { kind: Exclude<Kind, 'resume'>; nodeId: string }
  | { kind: 'fork'; atSeq: number; nodeId: string | undefined; onNode: OnNode };

/** What every dialog of a command is given. */
export interface CommandProps {
  state: RunState;
  /** Empty for the whole run. */
  nodeId: string;
  onclose: () => void;
}

/** The nearest node at or above this one that is so. */
function nearest(graph: Projection, node: GraphNode, is: 'paused' | 'stopped'): GraphNode | undefined {
  let at: GraphNode | undefined = node;
  while (at !== undefined && at[is] !== true) at = at.parentId === undefined ? undefined : graph.node(at.parentId);
  return at;
}

/** The nearest node at or above this one that is paused, while this one has not ended. */
export const pausedBy = (graph: Projection, node: GraphNode): GraphNode | undefined =>
  FINAL.has(node.status) ? undefined : nearest(graph, node, 'paused');

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
  if (nearest(graph, node, 'stopped') === undefined) {
    kinds.push('stop');
    if (node.status === 'waiting' && node.plan !== undefined) kinds.push('plan');
    kinds.push('budget');
  }
  return kinds;
}
