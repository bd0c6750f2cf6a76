// The events of one node up to a moment, collected as the log grows: each event is looked at once.

import type { Event } from '../gen/treeagent/v1/events_pb';
import type { History } from './projection/history';

export class NodeEvents {
  #found: Event[] = [];
  #scanned = 0;
  #history: History | undefined;
  #gapless = false;
  readonly #nodeId: string;

  constructor(nodeId: string) {
    this.#nodeId = nodeId;
  }

  upTo(history: History | undefined, seq: number | undefined): Event[] {
    if (history === undefined) return [];
    if (history !== this.#history || history.gapless !== this.#gapless) {
      this.#history = history;
      this.#gapless = history.gapless;
      this.#found = [];
      this.#scanned = 0;
    }
    for (const event of history.from(this.#scanned)) if (event.nodeId === this.#nodeId) this.#found.push(event);
    this.#scanned = history.size;
    return seq === undefined ? this.#found.slice() : this.#found.filter((e) => Number(e.seq) <= seq);
  }
}

export interface ToolCall {
  callId: string;
  toolName: string;
  args?: unknown;
  purpose?: string;
  startedAt: number;
  endedAt?: number;
  ok?: boolean;
  summary?: string;
  error?: string;
  /** The run knew the answer, so the tool was not called. */
  cached: boolean;
  /** The document that holds the whole answer. */
  answerId?: string;
}

/** The tool calls of a node, each with its result if there is one yet. */
export function toolCalls(events: Event[], time: (e: Event) => number): ToolCall[] {
  const calls = new Map<string, ToolCall>();
  for (const event of events) {
    const { body } = event;
    if (body.case === 'toolCallRequested') {
      const { callId, toolName, args, purpose, cached } = body.value;
      calls.set(callId, {
        callId,
        toolName,
        startedAt: time(event),
        cached,
        ...(args === undefined ? {} : { args }),
        ...(purpose === undefined ? {} : { purpose }),
      });
    } else if (body.case === 'toolCallResult') {
      const { callId, toolName, ok, summary, error, answer } = body.value;
      const call = calls.get(callId) ?? { callId, toolName, startedAt: time(event), cached: false };
      calls.set(callId, {
        ...call,
        ok,
        endedAt: time(event),
        ...(summary === undefined ? {} : { summary }),
        ...(error === undefined ? {} : { error }),
        ...(answer === undefined ? {} : { answerId: answer.documentId }),
      });
    }
  }
  return [...calls.values()];
}
