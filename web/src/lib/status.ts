// How statuses look. A status always has a word, an icon and a colour, so colour never carries the meaning alone.

import {
  expansionOf,
  type Expansion,
  type GraphNode,
  type NodeStatus,
  type Role,
  type RunStatus,
  type StepStatus,
} from './projection/model';

export type Tone = 'warm' | 'agg' | 'cool' | 'good' | 'bad' | 'held' | 'off';

export interface Look {
  label: string;
  icon: string;
  tone: Tone;
}

export const NODE_LOOKS: Record<NodeStatus, Look> = {
  planning: { label: 'Planning', icon: 'plan', tone: 'warm' },
  delegating: { label: 'Delegating', icon: 'branch', tone: 'warm' },
  executing: { label: 'Executing', icon: 'bolt', tone: 'warm' },
  waiting: { label: 'Waiting', icon: 'clock', tone: 'cool' },
  aggregating: { label: 'Aggregating', icon: 'merge', tone: 'agg' },
  completed: { label: 'Completed', icon: 'check', tone: 'good' },
  failed: { label: 'Failed', icon: 'cross', tone: 'bad' },
  blocked: { label: 'Blocked', icon: 'block', tone: 'held' },
  cancelled: { label: 'Cancelled', icon: 'stop', tone: 'off' },
};

export const RUN_LOOKS: Record<RunStatus, Look> = {
  queued: { label: 'Queued', icon: 'clock', tone: 'cool' },
  running: { label: 'Running', icon: 'bolt', tone: 'warm' },
  paused: { label: 'Paused', icon: 'pause', tone: 'held' },
  completed: { label: 'Completed', icon: 'check', tone: 'good' },
  failed: { label: 'Failed', icon: 'cross', tone: 'bad' },
  cancelled: { label: 'Cancelled', icon: 'stop', tone: 'off' },
};

export const STEP_LOOKS: Record<StepStatus, Look> = {
  pending: { label: 'Pending', icon: 'clock', tone: 'off' },
  running: { label: 'Running', icon: 'bolt', tone: 'warm' },
  completed: { label: 'Completed', icon: 'check', tone: 'good' },
  failed: { label: 'Failed', icon: 'cross', tone: 'bad' },
  cancelled: { label: 'Cancelled', icon: 'stop', tone: 'off' },
};

const EXPANSION_LOOKS: Record<Expansion, Look> = {
  unexpanded: { label: 'Unexpanded', icon: 'clock', tone: 'cool' },
  'in-progress': { label: 'In progress', icon: 'bolt', tone: 'warm' },
  expanded: { label: 'Expanded', icon: 'branch', tone: 'good' },
  leaf: { label: 'Leaf', icon: 'check', tone: 'good' },
};

/** How a node looks. For a topic of a guided search this says how far its research has come. */
export function lookOf(node: GraphNode, hasChildren: boolean): Look {
  const expansion = expansionOf(node, hasChildren);
  const status = NODE_LOOKS[node.status];
  if (expansion === undefined) return status;
  const look = EXPANSION_LOOKS[expansion];
  // What went wrong must not hide behind a word that is the same for all of them.
  const stopped = node.status === 'failed' || node.status === 'cancelled' || node.status === 'blocked';
  return stopped ? { ...status, label: `${look.label} (${node.status})` } : look;
}

export interface Mark {
  label: string;
  icon: string;
}

/** What people have done to a node, beside its status. `held`: it, or a node above it, is paused. */
export function marksOf(node: GraphNode, held: boolean): Mark[] {
  const marks: Mark[] = [];
  if (node.paused === true) marks.push({ label: 'Paused', icon: 'pause' });
  else if (held) marks.push({ label: 'Paused above', icon: 'pause' });
  if (node.stopped === true) marks.push({ label: 'Stopped', icon: 'stop' });
  if (node.generation !== undefined)
    marks.push({ label: node.generation === 1 ? 'Reopened' : `Reopened ${node.generation} times`, icon: 'again' });
  return marks;
}

/** What a node is: one plans and hands out work, the other does it. */
export const ROLE_LOOKS: Record<Role, { label: string; icon: string }> = {
  planner: { label: 'Planner', icon: 'tree' },
  executor: { label: 'Executor', icon: 'tool' },
};

/** Statuses whose card has a dashed border: the node plans rather than works. */
export const DASHED: ReadonlySet<NodeStatus> = new Set(['planning', 'delegating']);

/** What statuses and roles mean. */
export const STATUS_WORDS: Record<NodeStatus, string> = {
  planning: 'decides whether to do the task itself or to divide it',
  delegating: 'hands out the steps of its plan',
  executing: 'does its task itself',
  waiting: 'waits for its children, or for its turn',
  aggregating: 'puts the results of its children together',
  completed: 'has returned its result',
  failed: 'ended without a result',
  blocked: 'waits for something outside the run',
  cancelled: 'ended before it was done',
};
export const ROLE_WORDS: Record<Role, string> = {
  planner: 'plans and hands out work',
  executor: 'does work, or puts results together',
};
