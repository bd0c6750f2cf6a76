// Generated logs, as large or unusual as a test needs. They always replay.

import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { NodeStatus, Outcome, Role, RunStatus, Strategy } from '../src/gen/treeagent/v1/common_pb';
import { EventSchema, type Event } from '../src/gen/treeagent/v1/events_pb';

type Body = NonNullable<Parameters<typeof create<typeof EventSchema>>[1]>['body'];

const hex = (n: number): string => n.toString(16).padStart(12, '0');
export const runId = (n: number): string => `00000000-0000-4000-8000-${hex(n)}`;
export const nodeId = (n: number): string => `00000000-0000-4000-9000-${hex(n)}`;

export class Log {
  readonly events: Event[] = [];
  readonly run: string;
  readonly #parents: number[] = [];
  readonly #begin = Date.now() - 120_000;

  constructor(run: string, objective = 'A run that was made up') {
    this.run = run;
    this.add(0, {
      case: 'runCreated',
      value: { objective, strategy: Strategy.TREE, rootNodeId: nodeId(0), schemaVersion: 1, model: 'made up' },
    });
    this.add(0, { case: 'runStatus', value: { status: RunStatus.RUNNING } });
  }

  get head(): number {
    return this.events.length;
  }

  add(node: number, body: Body): Event {
    const parent = this.#parents[node] ?? -1;
    const event = create(EventSchema, {
      runId: this.run,
      seq: BigInt(this.events.length + 1),
      nodeId: nodeId(node),
      ...(parent >= 0 ? { parentNodeId: nodeId(parent) } : {}),
      timestamp: timestampFromMs(this.#begin + this.events.length),
      body: body!,
    });
    this.events.push(event);
    return event;
  }

  node(parent: number, title?: string): number {
    const node = this.#parents.length;
    this.#parents.push(parent);
    let depth = 0;
    for (let p = parent; p >= 0; p = this.#parents[p]!) depth += 1;
    this.add(node, {
      case: 'nodeCreated',
      value: {
        title: title ?? `Node ${node} of the tree`,
        depth,
        bandIndex: node % 3,
        stepIndex: node % 5,
        reason: 'It was asked for',
        successCriteria: ['It is there'],
      },
    });
    return node;
  }

  status(node: number, status: NodeStatus, message?: string): void {
    const role = status === NodeStatus.EXECUTING ? Role.EXECUTOR : Role.PLANNER;
    this.add(node, { case: 'nodeStatus', value: { status, role, ...(message ? { message } : {}) } });
  }

  done(node: number): void {
    this.add(node, { case: 'nodeResult', value: { result: { summary: `Node ${node} is done` } } });
    this.add(node, { case: 'nodeCompleted', value: { outcome: Outcome.SUCCESS } });
  }

  fail(node: number, error: string): void {
    this.add(node, { case: 'nodeFailed', value: { error, retryable: false } });
  }

  end(status = RunStatus.COMPLETED): void {
    this.add(0, { case: 'runStatus', value: { status } });
  }
}

/**
 * A whole run: `nodes` nodes with `fanout` children each, of which one in `failEvery` fails, and some of every other
 * event.
 */
export function bigLog(run: string, nodes: number, fanout: number, failEvery = 97): Log {
  const log = new Log(run, `A run of ${nodes} nodes`);
  for (let i = 0; i < nodes; i++) {
    const node = log.node(i === 0 ? -1 : Math.floor((i - 1) / fanout));
    log.status(node, i * fanout + 1 < nodes ? NodeStatus.PLANNING : NodeStatus.EXECUTING);
  }
  for (let i = nodes - 1; i > 0; i--) {
    if (i % 3 === 0)
      log.add(i, {
        case: 'usageRecorded',
        value: { model: 'made up', inputTokens: 900n, outputTokens: 120n, costMicros: 1_500n, purpose: 'execute' },
      });
    if (i % 11 === 0)
      log.add(i, {
        case: 'toolCallRequested',
        value: { callId: `c${i}`, toolName: 'search_documents', args: { query: `what is ${i}` } },
      });
    if (i % failEvery === 0) log.fail(i, 'the source could not be read');
    else if (i % 7 === 0) log.status(i, NodeStatus.WAITING);
    else if (i % 5 !== 0) log.done(i);
  }
  return log;
}
