// Applies one event to its node. Nodes are immutable: a change creates a new one.

import type { Event, NodeCreated } from '../../gen/treeagent/v1/events_pb';
import { countSteps, FINAL, NO_USAGE } from './model';
import type { GraphNode, Plan, PlanStep, Usage } from './model';
import {
  artifact,
  counts,
  deliverable,
  nodeStatus,
  outcome,
  ownStrategy,
  profile,
  result,
  role,
  skip,
  stepSearch,
  stepStatus,
  subtreeBudget,
  tidy,
  time,
  review,
  verification,
} from './wire';

/** An event that does not follow from the ones before it. */
export class ReplayError extends Error {
  override name = 'ReplayError';
}

/** An event about something that no earlier event created. */
export class UnknownError extends ReplayError {
  constructor(event: Event, what: string) {
    super(`event ${event.seq} is about ${what}, which no earlier event created`);
  }
}

export function createdNode(event: Event, e: NodeCreated): GraphNode {
  return tidy<GraphNode>({
    id: event.nodeId,
    parentId: event.parentNodeId,
    title: e.title,
    reason: e.reason,
    successCriteria: e.successCriteria,
    status: 'waiting',
    role: 'planner',
    depth: e.depth,
    bandIndex: e.bandIndex,
    stepIndex: e.stepIndex,
    stepId: e.stepId,
    artifacts: [],
    usage: NO_USAGE,
    subtreeUsage: NO_USAGE,
    strategy: ownStrategy(e.strategy),
    // Topics of a guided search have a slug and stand in no band.
    topic: e.stepId !== undefined && e.bandIndex === undefined ? tidy({ score: e.score }) : undefined,
    task:
      e.iteration === undefined || e.branchId === undefined
        ? undefined
        : { iteration: e.iteration, branchId: e.branchId },
    createdAt: time(event.timestamp),
  });
}

/** Decisions that a node keeps, as in `crates/contract/src/limits.rs`. */
const DECISIONS = 16;

const decided = (node: GraphNode, why: string): string[] => [...(node.decisions ?? []), why].slice(-DECISIONS);

/** Purposes that a node keeps, as in `crates/engine/src/graph.rs`. Logs of other programs may say anything. */
const PURPOSES = new Set(['plan', 'execute', 'aggregate', 'research', 'pick', 'verify']);

/** The node after `model` answered for `call`, whose purpose may also say what came of it, as in `plan (repair 1)`. */
function wrote(node: GraphNode, call: string, model: string): GraphNode {
  const purpose = call.split(/[ ,:]/, 1)[0] ?? '';
  const before = node.writtenBy ?? [];
  const at = before.findIndex((known) => known.purpose === purpose);
  if (at < 0 ? model === '' || !PURPOSES.has(purpose) : before[at]!.model === model) return node;
  const written = { purpose, model };
  return { ...node, writtenBy: at < 0 ? [...before, written] : before.with(at, written) };
}

/** The node after the event; the same object when the event changes nothing that the graph shows. */
export function applyToNode(node: GraphNode, event: Event): GraphNode {
  const at = time(event.timestamp);
  const body = event.body;
  switch (body.case) {
    case 'nodeStatus': {
      const status = nodeStatus(body.value.status);
      const starts = node.startedAt === undefined && status !== 'waiting' && !FINAL.has(status);
      const changed = tidy<GraphNode>({
        ...node,
        status,
        since: { ...node.since, status: at },
        role: role(body.value.role),
        message: body.value.message,
        decisions: body.value.why === undefined ? node.decisions : decided(node, body.value.why),
        progress: body.value.progress,
        endedAt: FINAL.has(status) ? at : node.endedAt,
        startedAt: starts ? at : node.startedAt,
        // A node that has ended is not paused any more.
        paused: FINAL.has(status) ? undefined : node.paused,
        review: FINAL.has(status) ? undefined : node.review,
      });
      return countSteps(changed);
    }
    case 'nodeCompleted': {
      const { message: _, paused: _p, review: _r, ...rest } = node;
      return { ...rest, status: 'completed', outcome: outcome(body.value.outcome), endedAt: at };
    }
    case 'nodeFailed': {
      const { message: _, paused: _p, review: _r, ...rest } = node;
      return { ...rest, status: 'failed', error: body.value.error, endedAt: at };
    }
    case 'planCreated':
      return {
        ...node,
        plan: tidy<Plan>({
          planId: body.value.planId,
          version: body.value.version,
          summary: body.value.summary ?? '',
          iteration: body.value.iteration,
          bands: [],
        }),
      };
    case 'planBandCreated': {
      const plan = planOf(node, event);
      const { bandIndex: index, goal, parallelizable } = body.value;
      return { ...node, plan: { ...plan, bands: [...plan.bands, { index, goal, parallelizable, steps: [] }] } };
    }
    case 'stepCreated': {
      const plan = planOf(node, event);
      const e = body.value;
      const band = plan.bands[e.bandIndex];
      if (band === undefined) throw new UnknownError(event, `band ${e.bandIndex}`);
      const step = tidy<PlanStep>({
        stepId: e.stepId,
        title: e.title,
        reason: e.reason,
        successCriteria: e.successCriteria,
        strategy: ownStrategy(e.strategy),
        search: stepSearch(e.search),
        branchId: e.branchId,
        budget: subtreeBudget(e.budget),
        deliverable: deliverable(e.deliverable),
        profile: profile(e.profile),
        status: 'pending',
      });
      const bands = plan.bands.with(e.bandIndex, { ...band, steps: [...band.steps, step] });
      return countSteps({ ...node, plan: { ...plan, bands } });
    }
    case 'stepStatus':
      return countSteps(withStep(node, event, body.value.stepId, { status: stepStatus(body.value.status) }));
    case 'nodeDelegated':
      return withStep(node, event, body.value.stepId, { nodeId: body.value.childNodeId });
    case 'scratchpadLinked':
      return { ...node, scratchpadDocId: body.value.scratchpadDocId };
    case 'scratchpadUpdated':
      return { ...node, scratchpadTail: body.value.tailPreview };
    case 'artifactCreated':
      return { ...node, artifacts: [...node.artifacts, artifact(body.value)] };
    case 'artifactCited': {
      const { artifactId, counts: cited } = body.value;
      const at = node.artifacts.findLastIndex((one) => one.artifactId === artifactId);
      if (at < 0) throw new UnknownError(event, `artifact ${artifactId}`);
      if (cited === undefined) return node;
      const known = node.artifacts[at]!.citations;
      return {
        ...node,
        artifacts: node.artifacts.with(at, { ...node.artifacts[at]!, citations: counts(cited, known) }),
      };
    }
    case 'nodeResult': {
      if (body.value.result === undefined) return node;
      const { verification: _v, ...others } = node;
      return { ...others, result: result(body.value.result) };
    }
    case 'answerVerified':
      if (body.value.verification === undefined) return node;
      return { ...node, verification: verification(body.value.verification) };
    case 'reviewRequested':
      return body.value.review === undefined ? node : { ...node, review: review(body.value.review) };
    case 'usageRecorded':
      return wrote(node, body.value.purpose, body.value.model);
    case 'sessionForked':
      return { ...node, topic: { ...node.topic, sessionId: body.value.sessionId } };
    case 'nodeSkipped':
      return { ...node, topic: { ...node.topic, skipped: skip(body.value) } };
    case 'nodePaused':
      return { ...node, paused: true };
    case 'nodeResumed': {
      const { paused: _p, review: _r, ...rest } = node;
      return rest;
    }
    case 'nodeStopped':
      return { ...node, stopped: true };
    case 'nodeReopened':
      return reopened(node, body.value.generation, body.value.again);
    case 'budgetSet':
      return body.value.clamped && node.parentId !== undefined
        ? { ...node, decisions: decided(node, 'guard:lease') }
        : node;
    case 'toolCallRequested':
    case 'toolCallResult': {
      const { callId, toolName } = body.value;
      const lastTool = { callId, toolName, ...(body.case === 'toolCallResult' && { ok: body.value.ok }) };
      return { ...node, lastTool, since: { ...node.since, tool: at } };
    }
    default:
      return node;
  }
}

/** The node goes on. What it returned in an earlier generation is in the log; the graph shows the latest one. */
function reopened(node: GraphNode, generation: number, again: boolean): GraphNode {
  const { stopped: _s, outcome: _o, error: _e, message: _m, endedAt: _t, ...open } = node;
  const waits: GraphNode = { ...open, generation, status: 'waiting' };
  if (!again) return waits;
  const { plan: _p, result: _r, verification: _v, progress: _g, ...fresh } = waits;
  return { ...fresh, artifacts: [] };
}

/** What the event adds to the sums of its node and of the node's ancestors. */
export function usageOf(event: Event): Usage | undefined {
  switch (event.body.case) {
    case 'usageRecorded': {
      const e = event.body.value;
      return {
        inputTokens: Number(e.inputTokens),
        outputTokens: Number(e.outputTokens),
        costMicros: Number(e.costMicros),
        toolCalls: 0,
        cachedTokens: Number(e.cachedTokens),
        cacheWriteTokens: Number(e.cacheWriteTokens),
        modelCalls: 1,
        durationMs: Number(e.durationMs),
      };
    }
    case 'toolCallRequested':
      // What the run knows already is no call.
      return event.body.value.cached ? undefined : { ...NO_USAGE, toolCalls: 1 };
    default:
      return undefined;
  }
}

function planOf(node: GraphNode, event: Event): Plan {
  if (node.plan === undefined) throw new UnknownError(event, `a plan of node ${node.id}`);
  return node.plan;
}

function withStep(node: GraphNode, event: Event, stepId: string, change: Partial<PlanStep>): GraphNode {
  const plan = node.plan;
  for (const [b, band] of plan?.bands.entries() ?? []) {
    const s = band.steps.findIndex((step) => step.stepId === stepId);
    if (s < 0 || plan === undefined) continue;
    const steps = band.steps.with(s, { ...band.steps[s]!, ...change });
    return { ...node, plan: { ...plan, bands: plan.bands.with(b, { ...band, steps }) } };
  }
  throw new UnknownError(event, `step ${stepId}`);
}
