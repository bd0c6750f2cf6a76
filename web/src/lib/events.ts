// Events in words.

import { toJson } from '@bufbuild/protobuf';
import { EventSchema, ItemState, type Event } from '../gen/treeagent/v1/events_pb';
import { countWords } from './citations/words';
import { clip, cost, duration, number } from './format';
import { counts, nodeStatus, role, runStatus, stepStatus } from './projection/wire';
import { limitWords, reasonWords } from './reasons';
import { commandWords } from './steering/words';

/** The event type of a field of `Event.body`: `nodeCreated` is `tree.node_created`. */
export function typeOf(field: string): string {
  return `tree.${field.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`)}`;
}

export function eventType(event: Event): string {
  // An event of a newer version is named by its server; its body is opaque, or a field that is unknown here.
  if (event.type !== '') return event.type;
  return event.body.case === undefined ? 'tree.unknown' : typeOf(event.body.case);
}

export const EVENT_TYPES: string[] = EventSchema.oneofs
  .flatMap((o) => o.fields)
  .filter((f) => f.localName !== 'opaque')
  .map((f) => typeOf(f.localName))
  .sort();

/** An amount of a budget. */
function amount(budget: string, n: bigint): string {
  if (budget === 'maxWallClockMs') return duration(Number(n));
  if (budget === 'maxCostMicros') return cost(Number(n));
  return `${number(Number(n))}${budget === 'maxTokens' ? ' tokens' : budget === 'maxToolCalls' ? ' tool calls' : ''}`;
}

/** Always one line. */
export function describe({ body, parentNodeId }: Event): string {
  switch (body.case) {
    case 'runCreated':
      return clip(body.value.objective, 120);
    case 'runStatus':
      return `run is ${runStatus(body.value.status)}${body.value.partial ? ', partial' : ''}${body.value.reason ? `: ${clip(reasonWords(body.value.reason), 100)}` : ''}`;
    case 'nodeCreated':
      return clip(body.value.title, 120);
    case 'nodeStatus':
      return `${nodeStatus(body.value.status)} as ${role(body.value.role)}${body.value.message ? ` · ${clip(reasonWords(body.value.message), 100)}` : ''}`;
    case 'nodeCompleted':
      return `completed${body.value.evidence ? `: ${clip(body.value.evidence, 100)}` : ''}`;
    case 'nodeFailed':
      return `${clip(reasonWords(body.value.error), 140)}${body.value.retryable ? ' · a retry may help' : ''}`;
    case 'planCreated':
      return `${body.value.iteration === undefined ? `plan ${body.value.version}` : `iteration ${body.value.iteration}`}${body.value.summary ? `: ${clip(body.value.summary, 100)}` : ''}`;
    case 'planBandCreated':
      return `band ${body.value.bandIndex + 1}: ${body.value.stepIds.length} ${body.value.stepIds.length === 1 ? 'step' : 'steps'}`;
    case 'stepCreated':
      return clip(body.value.title, 120);
    case 'stepStatus':
      return `step ${clip(body.value.stepId, 60)} is ${stepStatus(body.value.status)}`;
    case 'nodeDelegated':
      return 'child started';
    case 'scratchpadUpdated':
      return clip(body.value.tailPreview, 120);
    case 'artifactCreated':
      return clip(body.value.title ?? body.value.label ?? body.value.artifactId, 120);
    case 'artifactCited': {
      return body.value.counts === undefined ? '' : countWords(counts(body.value.counts));
    }
    case 'nodeResult':
      return clip(body.value.result?.summary ?? '', 140);
    case 'answerVerified': {
      const { verification, replanReason } = body.value;
      const met = verification?.criteria.filter((one) => one.met).length ?? 0;
      const doubts = verification?.doubts.length ?? 0;
      if (verification?.notChecked !== undefined) return clip(verification.summary, 140);
      const found = `${met} of ${verification?.criteria.length ?? 0} criteria met, ${doubts} ${doubts === 1 ? 'doubt' : 'doubts'}`;
      return replanReason === undefined ? found : `${found}; asks for another plan: ${clip(replanReason, 100)}`;
    }
    case 'reviewRequested':
      return `waits for a person; ${body.value.review?.premises?.assumptions.length ?? 0} assumptions`;
    case 'parentHint':
      return `read ${body.value.documentIds.length} documents, ${body.value.artifactIds.length} artifacts`;
    case 'nodeAggregated':
      return clip(body.value.summary, 140);
    case 'replanRequested':
      return clip(body.value.reason, 140);
    case 'usageRecorded':
      return `${body.value.purpose}: ${body.value.inputTokens} tokens in, ${body.value.outputTokens} out${body.value.documents.length > 0 ? `, read ${body.value.documents.length} documents` : ''}`;
    case 'budgetExhausted':
      return `${limitWords(body.value.budget)} of ${parentNodeId === undefined ? 'the run' : 'this branch'} is reached: ${amount(body.value.budget, body.value.used)} of ${amount(body.value.budget, body.value.limit)}`;
    case 'leaseCovered':
      return `${amount(body.value.budget, body.value.amount)} beyond its budget, taken over above`;
    case 'toolCallRequested':
      return `${body.value.toolName} [${body.value.cached ? 'KNOWN' : 'RUNNING'}]`;
    case 'toolCallResult':
      return `${body.value.toolName} [${body.value.ok ? 'OK' : 'FAILED'}]${body.value.error ? ` ${clip(body.value.error, 80)}` : ''}`;
    case 'rollupUpdated':
      return `iteration ${body.value.iteration}: ${clip(body.value.summary, 140)}`;
    case 'planDocumentUpdated': {
      const { items, remaining } = body.value;
      const done = items.filter((item) => item.state === ItemState.DONE).length;
      return `${done} of ${items.length} steps done${remaining.length > 0 ? `, ${remaining.length} still to do` : ''}`;
    }
    case 'taskRefused':
      return `${clip(body.value.branchId, 60)}: ${clip(body.value.title, 100)}: ${clip(body.value.reason, 100)}`;
    case 'leafPicked':
      return `picked${body.value.fallback ? ' instead' : ''}: ${clip(body.value.fallback ?? body.value.reason, 140)}`;
    case 'sessionForked':
      return body.value.parentSessionId ? `continues ${clip(body.value.parentSessionId, 60)}` : 'a new conversation';
    case 'nodeSkipped':
      return clip(body.value.reason, 140);
    case 'opaque':
      return clip(body.value.payloadJson, 140);
    default:
      return commandWords(body) ?? '';
  }
}

/** The colour group of an event in lists. */
export function toneOf({ body }: Event): string {
  switch (body.case) {
    case 'nodeFailed':
    case 'budgetExhausted':
      return 'bad';
    case 'nodeCompleted':
    case 'nodeResult':
      return 'good';
    case 'nodeAggregated':
    case 'replanRequested':
    case 'rollupUpdated':
    case 'answerVerified':
      return 'agg';
    case 'nodeStatus':
    case 'toolCallRequested':
      return 'warm';
    case 'nodePaused':
    case 'reviewRequested':
    case 'nodeStopped':
    case 'callStopped':
      return 'held';
    case 'toolCallResult':
      return body.value.ok ? 'good' : 'bad';
    case 'nodeCreated':
    case 'planCreated':
    case 'planDocumentUpdated':
    case 'planBandCreated':
    case 'stepCreated':
    case 'nodeDelegated':
    case 'nodeResumed':
    case 'nodeReopened':
    case 'guidanceAdded':
    case 'planEdited':
    case 'budgetSet':
    case 'runForked':
      return 'cool';
    default:
      return 'off';
  }
}

export function eventJson(event: Event): string {
  return JSON.stringify(toJson(EventSchema, event), null, 2);
}
