// Converts generated messages to the model.

import type { JsonObject } from '@bufbuild/protobuf';
import type { Timestamp } from '@bufbuild/protobuf/wkt';
import type { CitationCounts, Verification as PbVerification } from '../../gen/treeagent/v1/citations_pb';
import {
  ArtifactType,
  ModelProfile,
  NodeStatus as PbNodeStatus,
  Outcome as PbOutcome,
  PickerPolicy as PbPickerPolicy,
  ResultKind,
  Role as PbRole,
  RunStatus as PbRunStatus,
  Scope,
  type StepSearch as PbStepSearch,
  type SubtreeBudget as PbSubtreeBudget,
  StepStatus as PbStepStatus,
  Strategy,
  type TreeAgentResult,
  type Lease as PbLease,
} from '../../gen/treeagent/v1/common_pb';
import type { ArtifactCreated, LeafPicked, NodeSkipped } from '../../gen/treeagent/v1/events_pb';
import type { GraphTopic } from '../../gen/treeagent/v1/graph_pb';
import type { Review as PbReview } from '../../gen/treeagent/v1/review_pb';
import type {
  Graph,
  GraphArtifact,
  GraphNode as PbGraphNode,
  GraphPlan,
  Run,
  Usage as PbUsage,
} from '../../gen/treeagent/v1/run_service_pb';
import type {
  Artifact,
  Counts,
  GraphNode,
  GraphSnapshot,
  Lease,
  LeafPick,
  NodeStatus,
  Outcome,
  PickerPolicy,
  Plan,
  Profile,
  Result,
  Review,
  Role,
  RunStatus,
  StepSearch,
  StepStatus,
  SubtreeBudget,
  Topic,
  Usage,
  Verification,
} from './model';
import { NO_USAGE, USAGE_KEYS } from './model';

/** The generator shortens `NODE_STATUS_PLANNING` to `PLANNING`; the contract says `planning`. */
function word(enumeration: Record<number, string>, value: number): string {
  return (enumeration[value] ?? 'unspecified').toLowerCase();
}

export const nodeStatus = (v: PbNodeStatus) => word(PbNodeStatus, v) as NodeStatus;
export const runStatus = (v: PbRunStatus) => word(PbRunStatus, v) as RunStatus;
export const role = (v: PbRole) => word(PbRole, v) as Role;
export const stepStatus = (v: PbStepStatus) => word(PbStepStatus, v) as StepStatus;
export const outcome = (v: PbOutcome) => word(PbOutcome, v) as Outcome;
export const strategy = (v: Strategy) => word(Strategy, v);
export const scope = (v: Scope) => word(Scope, v);

export function time(t: Timestamp | undefined): number {
  return t === undefined ? 0 : Number(t.seconds) * 1000 + t.nanos / 1e6;
}

/** How long a run has run in milliseconds, until its end or `now`; undefined before it has started. */
export function took(run: Run, now: number): number | undefined {
  if (run.startedAt === undefined) return undefined;
  const end = run.endedAt === undefined ? now : time(run.endedAt);
  return end === 0 ? undefined : Math.max(0, end - time(run.startedAt));
}

/** Drops keys whose value is undefined, so "absent" has one form. */
export function tidy<T extends object>(value: T): T {
  for (const key of Object.keys(value) as (keyof T)[]) if (value[key] === undefined) delete value[key];
  return value;
}

export function result(r: TreeAgentResult): Result {
  return tidy<Result>({
    kind: word(ResultKind, r.kind) as Result['kind'],
    summary: r.summary,
    successAssessment: r.successAssessment && tidy({ met: r.successAssessment.met, notes: r.successAssessment.notes }),
    primaryArtifactId: r.primaryArtifactId,
    artifactIds: r.artifactIds,
    documentIds: r.documentIds,
    jsonPayload: r.jsonPayload,
    scratchpadDocId: r.scratchpadDocId,
    scratchpadTail: r.scratchpadTail,
    keyFindings: r.keyFindings.length > 0 ? r.keyFindings : undefined,
    gaps: r.gaps.length > 0 ? r.gaps : undefined,
  });
}

export function verification(v: PbVerification): Verification {
  const criteria = v.criteria.map(({ criterion, met, note }) => ({ criterion, met, ...(note === '' ? {} : { note }) }));
  const doubts = v.doubts.map(({ claim, reason }) => ({ claim, reason }));
  return tidy<Verification>({
    summary: v.summary,
    criteria: criteria.length > 0 ? criteria : undefined,
    doubts: doubts.length > 0 ? doubts : undefined,
    notChecked: v.notChecked,
  });
}

export function review({ premises, estimate: e, goesOnAt }: PbReview): Review {
  const amount = (n: bigint | undefined): number | undefined => (n === undefined ? undefined : Number(n));
  const calls = [e?.planCalls, e?.executeCalls, e?.aggregateCalls, e?.researchCalls, e?.pickCalls, e?.verifyCalls];
  return tidy<Review>({
    assumptions: premises?.assumptions ?? [],
    leftOut: premises?.leftOut ?? [],
    nodes: Number(e?.nodes ?? 0n),
    calls: calls.reduce((sum, n) => sum + Number(n ?? 0n), 0),
    tokens: amount(e?.tokens),
    costMicros: amount(e?.costMicros),
    goesOnAt: goesOnAt && time(goesOnAt),
  });
}

/** Counts, with those of the same artifact that are known already. */
export function counts(c: CitationCounts, known?: Counts): Counts {
  const reasons = [...new Set([...(known?.reasons ?? []), ...c.reasons])];
  return tidy<Counts>({
    total: Number(c.total) + (known?.total ?? 0),
    found: Number(c.found) + (known?.found ?? 0),
    notFound: Number(c.notFound) + (known?.notFound ?? 0),
    supported: Number(c.supported) + (known?.supported ?? 0),
    contradicted: Number(c.contradicted) + (known?.contradicted ?? 0) || undefined,
    doubted: Number(c.doubted) + (known?.doubted ?? 0),
    notChecked: Number(c.notChecked) + (known?.notChecked ?? 0),
    reasons: reasons.length > 0 ? reasons : undefined,
  });
}

export function artifact(a: ArtifactCreated | GraphArtifact): Artifact {
  return tidy<Artifact>({
    artifactId: a.artifactId,
    artifactType: word(ArtifactType, a.artifactType) as Artifact['artifactType'],
    documentId: a.documentId,
    label: a.label ?? '',
    title: a.title ?? '',
    isPrimary: a.isPrimary,
    jsonPayload: a.jsonPayload as JsonObject | undefined,
    citations: 'citations' in a && a.citations ? counts(a.citations) : undefined,
  });
}

function plan(p: GraphPlan): Plan {
  return tidy<Plan>({
    planId: p.planId,
    version: p.version,
    summary: p.summary,
    iteration: p.iteration,
    bands: p.bands.map((b) => ({
      index: b.index,
      goal: b.goal,
      parallelizable: b.parallelizable,
      steps: b.steps.map((s) =>
        tidy({
          stepId: s.stepId,
          title: s.title,
          reason: s.reason,
          successCriteria: s.successCriteria,
          strategy: ownStrategy(s.strategy),
          search: stepSearch(s.search),
          branchId: s.branchId,
          budget: subtreeBudget(s.budget),
          deliverable: deliverable(s.deliverable),
          profile: profile(s.profile),
          status: stepStatus(s.status),
          nodeId: s.nodeId,
        }),
      ),
    })),
  });
}

/** How a tree grows where that differs from the node above. */
export function ownStrategy(s: Strategy | undefined): GraphNode['strategy'] {
  return s === undefined ? undefined : (strategy(s) as GraphNode['strategy']);
}

export const deliverable = (kind: ResultKind | undefined) =>
  kind === undefined ? undefined : (word(ResultKind, kind) as Result['kind']);
export const profile = (p: ModelProfile | undefined) =>
  p === undefined ? undefined : (word(ModelProfile, p) as Profile);

export function stepSearch(s: PbStepSearch | undefined): StepSearch | undefined {
  return s && { maxDepth: s.maxDepth, maxNodes: s.maxNodes };
}

export function subtreeBudget(b: PbSubtreeBudget | undefined): SubtreeBudget | undefined {
  const number = (value: bigint | undefined): number | undefined => (value === undefined ? undefined : Number(value));
  return (
    b &&
    tidy<SubtreeBudget>({
      maxTokens: number(b.maxTokens),
      maxCostMicros: number(b.maxCostMicros),
      maxToolCalls: number(b.maxToolCalls),
      maxWallClockMs: number(b.maxWallClockMs),
    })
  );
}

function lease(l: PbLease): Lease {
  return tidy<Lease>({
    limits: subtreeBudget(l.limits) ?? {},
    since: l.since && time(l.since),
    deadline: l.deadline && time(l.deadline),
    before: {
      tokens: Number(l.before?.tokens ?? 0n),
      costMicros: Number(l.before?.costMicros ?? 0n),
      toolCalls: Number(l.before?.toolCalls ?? 0n),
    },
    exhausted: l.exhausted,
  });
}

export function leafPick(p: LeafPicked): LeafPick {
  const policy =
    p.policy === undefined ? undefined : (word(PbPickerPolicy, p.policy).replace('_', '-') as PickerPolicy);
  return tidy<LeafPick>({ leafNodeId: p.leafNodeId, reason: p.reason, policy, fallback: p.fallback });
}

export function skip(s: NodeSkipped): NonNullable<Topic['skipped']> {
  return { reason: s.reason };
}

function topic(t: GraphTopic): Topic {
  return tidy<Topic>({
    score: t.score,
    picked: t.picked && leafPick(t.picked),
    skipped: t.skipped && skip(t.skipped),
    sessionId: t.sessionId,
  });
}

export function usage(u: PbUsage | undefined): Usage {
  const all = { ...NO_USAGE };
  if (u !== undefined) for (const key of USAGE_KEYS) all[key] = Number(u[key]);
  return all;
}

function node(n: PbGraphNode): GraphNode {
  return tidy<GraphNode>({
    id: n.id,
    parentId: n.parentId,
    title: n.title,
    reason: n.reason,
    successCriteria: n.successCriteria,
    status: nodeStatus(n.status),
    role: role(n.role),
    depth: n.depth,
    bandIndex: n.bandIndex,
    stepIndex: n.stepIndex,
    stepId: n.stepId,
    message: n.message,
    decisions: n.decisions.length > 0 ? n.decisions : undefined,
    progress: n.progress,
    outcome: n.outcome === undefined ? undefined : outcome(n.outcome),
    error: n.error,
    scratchpadDocId: n.scratchpadDocId,
    scratchpadTail: n.scratchpadTail,
    lastTool: n.lastTool && tidy({ callId: n.lastTool.callId, toolName: n.lastTool.toolName, ok: n.lastTool.ok }),
    plan: n.plan && plan(n.plan),
    result: n.result && result(n.result),
    verification: n.verification && verification(n.verification),
    review: n.review && review(n.review),
    artifacts: n.artifacts.map(artifact),
    writtenBy: n.writtenBy.length > 0 ? n.writtenBy.map(({ purpose, model }) => ({ purpose, model })) : undefined,
    usage: usage(n.usage),
    subtreeUsage: usage(n.subtreeUsage),
    strategy: ownStrategy(n.strategy),
    topic: n.topic && topic(n.topic),
    task: n.task && { iteration: n.task.iteration, branchId: n.task.branchId },
    paused: n.paused || undefined,
    stopped: n.stopped || undefined,
    generation: n.generation || undefined,
    lease: n.lease && lease(n.lease),
    createdAt: time(n.createdAt),
    startedAt: n.startedAt && time(n.startedAt),
    endedAt: n.endedAt && time(n.endedAt),
  });
}

export function snapshot(g: Graph): GraphSnapshot {
  return {
    runId: g.runId,
    seq: Number(g.seq),
    status: runStatus(g.status),
    partial: g.partial,
    ...(g.goesOnAt && { goesOnAt: time(g.goesOnAt) }),
    nodes: g.nodes.map(node),
  };
}
