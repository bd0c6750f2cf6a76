// What each node did when, for the picture of a run's time: its phases, its calls of tools, and the critical path.

import type { Event } from '../../gen/treeagent/v1/events_pb';
import type { NodeStatus } from '../projection/model';
import type { Projection } from '../projection/projection';
import { nodeStatus } from '../projection/wire';
import type { Course } from './course';

export interface Phase {
  status: NodeStatus;
  /** The event with which it begins. */
  seq: number;
}

export interface Call {
  seq: number;
  /** Absent while it runs. */
  ok?: boolean;
}

export interface Span {
  phases: Phase[];
  calls: Call[];
}

/** The spans of all nodes. They grow with the log. */
export class Spans {
  readonly #of = new Map<string, Span>();
  readonly #calls = new Map<string, Call>();
  size = 0;

  of(id: string): Span | undefined {
    return this.#of.get(id);
  }

  /** Adds the next event. */
  add({ nodeId, body }: Event): void {
    this.size += 1;
    const seq = this.size;
    const span = (): Span => {
      let known = this.#of.get(nodeId);
      if (known === undefined) this.#of.set(nodeId, (known = { phases: [], calls: [] }));
      return known;
    };
    switch (body.case) {
      case 'nodeCreated':
      case 'nodeReopened':
        span().phases.push({ status: 'waiting', seq });
        break;
      case 'nodeStatus':
        span().phases.push({ status: nodeStatus(body.value.status), seq });
        break;
      case 'nodeCompleted':
      case 'nodeFailed':
        span().phases.push({ status: body.case === 'nodeFailed' ? 'failed' : 'completed', seq });
        break;
      case 'toolCallRequested': {
        const call: Call = { seq };
        this.#calls.set(body.value.callId, call);
        span().calls.push(call);
        break;
      }
      case 'toolCallResult': {
        const call = this.#calls.get(body.value.callId);
        if (call !== undefined) call.ok = body.value.ok;
      }
    }
  }
}

/** From where to where a phase of a node takes, as places of a course; it ends at `end` if nothing follows. */
export function places(span: Span, at: number, course: Course, end: number): [from: number, to: number] {
  const next = span.phases[at + 1];
  return [course.place(span.phases[at]!.seq), next === undefined ? end : course.place(next.seq)];
}

/**
 * The nodes on which the end of the run depended: of each of them, going back from its end, the child that ended last
 * before, and so on. Times are from the graph; `now` ends what has not ended.
 */
export function criticalPath(graph: Projection, now: number): Set<number> {
  const path = new Set<number>();
  const stack = graph.nodes.length === 0 ? [] : [0];
  while (stack.length > 0) {
    const at = stack.pop()!;
    path.add(at);
    const ends = (child: number): number => graph.nodes[child]!.endedAt ?? now;
    const children = graph
      .childrenOf(at)
      .filter((child) => graph.nodes[child]!.startedAt !== undefined)
      .toSorted((a, b) => ends(b) - ends(a));
    let until = ends(at);
    for (const child of children) {
      if (ends(child) > until) continue;
      stack.push(child);
      until = graph.nodes[child]!.startedAt!;
    }
  }
  return path;
}

/**
 * The node of a path that worked longest itself, and for how long: what its children did does not count, and what was
 * before `begin` neither.
 */
export function longest(
  graph: Projection,
  path: ReadonlySet<number>,
  begin: number,
  now: number,
): { at: number; ms: number } {
  const worked = (at: number): number => {
    const { startedAt, endedAt } = graph.nodes[at]!;
    return startedAt === undefined ? 0 : Math.max(0, (endedAt ?? now) - Math.max(begin, startedAt));
  };
  let best = { at: 0, ms: 0 };
  for (const at of path) {
    const below = graph.childrenOf(at).filter((child) => path.has(child));
    const ms = worked(at) - below.reduce((sum, child) => sum + worked(child), 0);
    if (ms > best.ms) best = { at, ms };
  }
  return best;
}
