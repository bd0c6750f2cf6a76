// The graph as values. Names, strings and defaults are those of the contract's JSON, so the same
// expected graphs test this projection and the Rust one.

export type RunStatus = 'queued' | 'running' | 'paused' | 'completed' | 'failed' | 'cancelled';
export type Role = 'planner' | 'executor';
export type StepStatus = 'pending' | 'running' | 'completed' | 'failed' | 'cancelled';
export type Outcome = 'success' | 'partial';

/** The order in which counts by status are kept and shown. */
export const NODE_STATUSES = [
  'planning',
  'delegating',
  'executing',
  'waiting',
  'aggregating',
  'completed',
  'failed',
  'blocked',
  'cancelled',
] as const;
export type NodeStatus = (typeof NODE_STATUSES)[number];

export const ACTIVE_STATUSES: ReadonlySet<NodeStatus> = new Set(['planning', 'delegating', 'executing', 'aggregating']);

/** Statuses in which a node has ended. */
export const FINAL: ReadonlySet<NodeStatus> = new Set(['completed', 'failed', 'cancelled']);

const INDEX = Object.fromEntries(NODE_STATUSES.map((status, i) => [status, i])) as Record<NodeStatus, number>;
export const statusIndex = (status: NodeStatus): number => INDEX[status];

export function isFinalRun(status: RunStatus): boolean {
  return status === 'completed' || status === 'failed' || status === 'cancelled';
}

export interface ToolActivity {
  callId: string;
  toolName: string;
  /** Absent while it runs. */
  ok?: boolean;
}

/** How a tree grows. */
export type Strategy = 'tree' | 'homework' | 'search';

/** The limits of a guided search that carries out a step of a plan. */
export interface StepSearch {
  maxDepth: number;
  maxNodes: number;
}

/** What a node and everything below it may use. An absent field sets no limit of its own. */
export interface SubtreeBudget {
  maxTokens?: number;
  /** Millionths of a US dollar. */
  maxCostMicros?: number;
  maxToolCalls?: number;
  /** Milliseconds, pauses aside. */
  maxWallClockMs?: number;
}

/** What a subtree has used of what its budget can limit. */
export interface SubtreeUse {
  tokens: number;
  costMicros: number;
  toolCalls: number;
}

/** A budget of a subtree, as it was granted. */
export interface Lease {
  limits: SubtreeBudget;
  /** Since when its time counts: milliseconds since 1970. Absent while the node has not begun. */
  since?: number;
  /** When its time is over, pauses aside: milliseconds since 1970. */
  deadline?: number;
  /** What the subtree had used before. It does not count. */
  before: SubtreeUse;
  /** The budget that is used up, such as `maxTokens`. */
  exhausted?: string;
}

export type PickerPolicy = 'llm' | 'breadth-first' | 'best-first';

/** Why a topic was chosen. */
export interface LeafPick {
  leafNodeId: string;
  reason: string;
  policy?: PickerPolicy;
  /** Why the choice of the model was not used. */
  fallback?: string;
}

/** What a guided search says about one of its topics. */
export interface Topic {
  /** How much it promises, from 0 to 1. */
  score?: number;
  picked?: LeafPick;
  /** Why it needed no research. */
  skipped?: { reason: string };
  sessionId?: string;
}

export const PROFILES = ['fast', 'balanced', 'powerful'] as const;
export type Profile = (typeof PROFILES)[number];

export interface PlanStep {
  stepId: string;
  title: string;
  reason: string;
  successCriteria: string[];
  /** `search` if a guided search carries it out. */
  strategy?: Strategy;
  search?: StepSearch;
  /** The branch of homework that it is for. */
  branchId?: string;
  /** What the step and everything below it may use. */
  budget?: SubtreeBudget;
  /** What it is to return; its worker decides where there is none. */
  deliverable?: Result['kind'];
  /** The ability that its model needs. */
  profile?: Profile;
  status: StepStatus;
  nodeId?: string;
}

export interface PlanBand {
  index: number;
  goal: string;
  parallelizable: boolean;
  steps: PlanStep[];
}

export interface Plan {
  planId: string;
  version: number;
  summary: string;
  /** The iteration of homework that it is for. */
  iteration?: number;
  bands: PlanBand[];
}

export interface Artifact {
  artifactId: string;
  artifactType: 'document' | 'json' | 'summary' | 'other';
  documentId?: string;
  label: string;
  title: string;
  isPrimary: boolean;
  jsonPayload?: unknown;
  /** What the check of quotes found in its statements, if they are counted. */
  citations?: Counts;
}

/** How many citations there are, and of how many statements the quotes were found, not found or not checked. */
export interface Counts {
  total: number;
  found: number;
  notFound: number;
  supported: number;
  /** Absent if there is none. */
  contradicted?: number;
  doubted: number;
  notChecked: number;
  /** Why those were not checked; absent if there is none. */
  reasons?: string[];
}

export interface Result {
  kind: 'json' | 'document' | 'hybrid';
  summary: string;
  successAssessment?: { met: boolean; notes?: string };
  primaryArtifactId?: string;
  artifactIds: string[];
  documentIds: string[];
  jsonPayload?: unknown;
  scratchpadDocId?: string;
  scratchpadTail?: string;
  /** What an aggregation found, and what it missed. Absent if empty. */
  keyFindings?: string[];
  gaps?: string[];
}

/** What the verifier found in an answer. Lists are absent if they are empty. */
export interface Verification {
  summary: string;
  criteria?: { criterion: string; met: boolean; note?: string }[];
  /** Claims that it doubts, in the words of the answer. */
  doubts?: { claim: string; reason: string }[];
  /** Why it could not check the answer. */
  notChecked?: string;
}

/** The model that answered last for one purpose. */
export interface WrittenBy {
  readonly purpose: string;
  readonly model: string;
}

export interface Usage {
  inputTokens: number;
  outputTokens: number;
  /** Millionths of a US dollar. */
  costMicros: number;
  toolCalls: number;
  /** Input tokens that the provider had cached; part of `inputTokens`. */
  cachedTokens: number;
  /** Input tokens that the provider wrote to its cache; part of `inputTokens`. */
  cacheWriteTokens: number;
  /** Model calls. */
  modelCalls: number;
  /** Total milliseconds of those calls. */
  durationMs: number;
}

export const USAGE_KEYS = [
  'inputTokens',
  'outputTokens',
  'costMicros',
  'toolCalls',
  'cachedTokens',
  'cacheWriteTokens',
  'modelCalls',
  'durationMs',
] as const satisfies readonly (keyof Usage)[];

export const NO_USAGE: Readonly<Usage> = {
  inputTokens: 0,
  outputTokens: 0,
  costMicros: 0,
  toolCalls: 0,
  cachedTokens: 0,
  cacheWriteTokens: 0,
  modelCalls: 0,
  durationMs: 0,
};

/** The first without the second, key by key. */
export function minus(a: Readonly<Usage>, b: Readonly<Usage>): Usage {
  const rest = { ...a };
  for (const key of USAGE_KEYS) rest[key] = Math.max(0, rest[key] - b[key]);
  return rest;
}

/** The sum of both, key by key. */
export function plus(a: Readonly<Usage>, b: Readonly<Usage>): Usage {
  const sum = { ...a };
  for (const key of USAGE_KEYS) sum[key] += b[key];
  return sum;
}

/** What the budget of a subtree can limit. */
export function subtreeUse(usage: Readonly<Usage>): SubtreeUse {
  return { tokens: usage.inputTokens + usage.outputTokens, costMicros: usage.costMicros, toolCalls: usage.toolCalls };
}

/** What homework says about one of its tasks. */
export interface Task {
  iteration: number;
  branchId: string;
}

/** What a person is asked to look at, beside the plan. */
export interface Review {
  readonly assumptions: string[];
  readonly leftOut: string[];
  /** The most that the run can use. Absent for no limit. */
  readonly nodes: number;
  readonly calls: number;
  readonly tokens?: number;
  readonly costMicros?: number;
  /** Milliseconds since 1970. Absent for never. */
  readonly goesOnAt?: number;
}

/** One node. It is immutable: an event that changes it creates a new one, so past states stay valid. */
export interface GraphNode {
  readonly id: string;
  readonly parentId?: string;
  readonly title: string;
  readonly reason: string;
  readonly successCriteria: string[];
  readonly status: NodeStatus;
  readonly role: Role;
  readonly depth: number;
  readonly bandIndex?: number;
  readonly stepIndex?: number;
  readonly stepId?: string;
  readonly message?: string;
  /** What was decided about it and why, the latest last. */
  readonly decisions?: string[];
  readonly progress?: number;
  readonly outcome?: Outcome;
  readonly error?: string;
  readonly scratchpadDocId?: string;
  readonly scratchpadTail?: string;
  readonly lastTool?: ToolActivity;
  readonly plan?: Plan;
  readonly result?: Result;
  /** Only of the root, until it goes on. */
  readonly review?: Review;
  /** Only of the root, about its latest answer. */
  readonly verification?: Verification;
  readonly artifacts: Artifact[];
  /** Which models answered for it, by purpose. Absent for none. */
  readonly writtenBy?: WrittenBy[];
  /** Sums over its own role calls. */
  readonly usage: Usage;
  /** Sums over the role calls of the node and its descendants. */
  readonly subtreeUsage: Usage;
  /** How the tree grows below it, if that differs from its parent. */
  readonly strategy?: Strategy;
  readonly topic?: Topic;
  readonly task?: Task;
  /** A user has paused it, and everything below it. Absent when not. */
  readonly paused?: true;
  /** A user has stopped it, and everything below it. Absent when not. */
  readonly stopped?: true;
  /** How often it was reopened; absent for never. */
  readonly generation?: number;
  /** What it and everything below it may use, if that has a budget of its own. */
  readonly lease?: Lease;
  /** Milliseconds since 1970, with microseconds as the fraction. */
  readonly createdAt: number;
  readonly startedAt?: number;
  readonly endedAt?: number;
  /** Since when it has its status, and when its latest tool was called or answered. It is in no snapshot. */
  readonly since?: { readonly status?: number; readonly tool?: number };
}

/** How far the research of a topic has come. */
export type Expansion = 'unexpanded' | 'in-progress' | 'expanded' | 'leaf';

/** That of a topic of a guided search; undefined for other nodes. As in `crates/contract/src/search.rs`. */
export function expansionOf(node: GraphNode, hasChildren: boolean): Expansion | undefined {
  if (node.topic === undefined) return undefined;
  if (node.result !== undefined && hasChildren) return 'expanded';
  if (node.status === 'completed') return 'leaf';
  return FINAL.has(node.status) || node.startedAt === undefined ? 'unexpanded' : 'in-progress';
}

/** True from the pick of a topic until its research ends. */
export function isPicked(node: GraphNode): boolean {
  return node.topic?.picked !== undefined && node.result === undefined && !FINAL.has(node.status);
}

const ENDED_STEPS: ReadonlySet<StepStatus> = new Set(['completed', 'failed', 'cancelled']);
const WAITS: ReadonlySet<NodeStatus> = new Set(['delegating', 'waiting', 'aggregating']);

/** How many steps of a node's plan have ended, and how many there are, while it waits for them. */
function endedSteps({ status, plan }: GraphNode): [ended: number, all: number] | undefined {
  if (plan === undefined || !WAITS.has(status)) return undefined;
  const steps = plan.bands.flatMap((band) => band.steps);
  return steps.length === 0 ? undefined : [steps.filter((s) => ENDED_STEPS.has(s.status)).length, steps.length];
}

/** The node with the progress that its steps give. What the log says of it is from the last change of its status. */
export function countSteps(node: GraphNode): GraphNode {
  const steps = endedSteps(node);
  return steps === undefined ? node : { ...node, progress: steps[0] / steps[1] };
}

export interface Progress {
  /** 0 to 1. */
  part: number;
  /** A description; empty when the node reported only the fraction. */
  text: string;
}

/** The progress of a node that has not ended: the share of its steps that have ended, else as it reports it. */
export function progressOf(node: GraphNode): Progress | undefined {
  if (node.endedAt !== undefined || node.progress === undefined) return undefined;
  const steps = endedSteps(node);
  const text = steps === undefined ? '' : `${steps[0]} of ${steps[1]} steps`;
  return { part: Math.min(1, Math.max(0, node.progress)), text };
}

export interface GraphSnapshot {
  runId: string;
  seq: number;
  status: RunStatus;
  partial: boolean;
  /** When a run that waits for the quota of its provider goes on by itself. */
  goesOnAt?: number;
  nodes: GraphNode[];
}
