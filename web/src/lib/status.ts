// How statuses look. A status always has a word, an icon and a colour, so colour never carries the meaning alone.

import type { NodeStatus, RunStatus } from './projection/model';

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

/** Statuses whose card has a dashed border: the node plans rather than works. */
export const DASHED: ReadonlySet<NodeStatus> = new Set(['planning', 'delegating']);
