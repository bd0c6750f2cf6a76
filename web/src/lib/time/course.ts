// The course of a run over its time: how many nodes were active after each event, and what stands out. It grows with
// the log.

import type { Event } from '../../gen/treeagent/v1/events_pb';
import { RunStatus } from '../../gen/treeagent/v1/common_pb';
import { ACTIVE_STATUSES, type NodeStatus } from '../projection/model';
import { nodeStatus, time } from '../projection/wire';

/** What is stacked, from below: work, planning, and putting results together. */
export const LAYERS = ['executing', 'planning', 'aggregating'] as const;

export type FlagKind = 'failure' | 'plan' | 'replan' | 'steering' | 'fork';

export interface Flag {
  seq: number;
  kind: FlagKind;
  nodeId: string;
}

/** A time without active nodes that is cut short: where it ends, and how long it was in milliseconds. */
export interface Gap {
  place: number;
  ms: number;
}

/** A mark on the axis: the time on the run's clock, in milliseconds, and where it stands. */
export interface Tick {
  place: number;
  ms: number;
}

/** Distances of marks on an axis, in seconds. */
const STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 18_000, 36_000, 86_400];

/** A time without active nodes is shown as no more than this. */
const IDLE_MS = 2_000;

const LAYER_OF: Partial<Record<NodeStatus, number>> = { executing: 0, planning: 1, delegating: 1, aggregating: 2 };

const STEERING = new Set([
  'guidanceAdded',
  'planEdited',
  'nodePaused',
  'nodeResumed',
  'nodeStopped',
  'nodeReopened',
  'budgetSet',
  'reviewRequested',
]);

/** The flag of an event; undefined for one that does not stand out. */
function flagOf({ body }: Event): FlagKind | undefined {
  if (body.case === 'nodeFailed' || body.case === 'budgetExhausted') return 'failure';
  if (body.case === 'planCreated') return body.value.version > 1 ? 'replan' : 'plan';
  if (body.case === 'replanRequested') return 'replan';
  if (body.case === 'runForked') return 'fork';
  return body.case !== undefined && STEERING.has(body.case) ? 'steering' : undefined;
}

export class Course {
  /** When each event happened, and where it stands: milliseconds since the first one, with idle times cut short. */
  readonly #times: number[] = [];
  readonly #places: number[] = [];
  /** Active nodes after each event, by layer. */
  readonly #counts: number[][] = [[], [], []];
  readonly #statuses = new Map<string, number>();
  readonly #now = [0, 0, 0];
  readonly flags: Flag[] = [];
  readonly gaps: Gap[] = [];
  /** From which event on the clock of the run counts from when. A fork has a clock of its own, as on the server. */
  readonly #begins: { seq: number; at: number }[] = [];
  /** The most nodes that were active at once. */
  most = 0;

  /** The number of events. */
  get size(): number {
    return this.#times.length;
  }

  /** Adds the next event. */
  add(event: Event): void {
    const last = this.#times.length - 1;
    const at = Math.max(time(event.timestamp), this.#times[last] ?? 0);
    const passed = last < 0 ? 0 : at - this.#times[last]!;
    // A fork goes on later, whatever was at work when its source was left.
    const shown = event.body.case === 'runForked' ? Math.min(passed, IDLE_MS) : this.#shown(passed);
    this.#places.push(last < 0 ? 0 : this.#places[last]! + shown);
    this.#times.push(at);
    if (shown < passed) this.gaps.push({ place: this.#places.at(-1)!, ms: passed - shown });
    const { body } = event;
    const starts = body.case === 'runStatus' && body.value.status === RunStatus.RUNNING && this.#begins.length === 0;
    if (starts || (body.case === 'runForked' && this.#begins.length > 0)) this.#begins.push({ seq: this.size, at });
    this.#follow(event);
    for (const [layer, counts] of this.#counts.entries()) counts.push(this.#now[layer]!);
    this.most = Math.max(this.most, this.#active);
    const kind = flagOf(event);
    if (kind !== undefined) this.flags.push({ seq: this.size, kind, nodeId: event.nodeId });
  }

  get #active(): number {
    return this.#now[0]! + this.#now[1]! + this.#now[2]!;
  }

  #shown(passed: number): number {
    return this.#active > 0 ? passed : Math.min(passed, IDLE_MS);
  }

  #follow({ nodeId, body }: Event): void {
    let status: NodeStatus | undefined;
    if (body.case === 'nodeStatus') status = nodeStatus(body.value.status);
    else if (body.case === 'nodeCompleted') status = 'completed';
    else if (body.case === 'nodeFailed') status = 'failed';
    else return;
    const before = this.#statuses.get(nodeId);
    if (before !== undefined) this.#now[before]! -= 1;
    const layer = ACTIVE_STATUSES.has(status) ? LAYER_OF[status] : undefined;
    if (layer === undefined) this.#statuses.delete(nodeId);
    else {
      this.#now[layer]! += 1;
      this.#statuses.set(nodeId, layer);
    }
  }

  /** When an event happened, in milliseconds since 1970. */
  time(seq: number): number {
    return this.#times[Math.min(Math.max(1, seq), this.size) - 1] ?? 0;
  }

  /** When the clock of the run began, in milliseconds since 1970. */
  get begin(): number | undefined {
    return this.#begins.at(-1)?.at;
  }

  /** The time on the run's clock after an event, in milliseconds: 0 before the run begins. A fork begins anew. */
  elapsed(seq: number): number {
    const begin = this.#begins.findLast((one) => one.seq <= seq);
    return begin === undefined ? 0 : Math.max(0, this.time(seq) - begin.at);
  }

  /** Marks for an axis that ends at a place, at most so many. */
  ticks(end: number, most: number): Tick[] {
    const step = 1000 * (STEPS.find((s) => 1000 * s * most >= end) ?? STEPS.at(-1)!);
    return this.#begins.flatMap(({ seq, at }, i) => {
      const next = this.#begins[i + 1];
      const until = next === undefined ? Math.max(this.time(this.size), at + end) : next.at;
      const found: Tick[] = [];
      for (let ms = 0; at + ms <= until && found.length <= most; ms += step) {
        // The last event of this clock that is no later.
        let [least, top] = [seq, (next?.seq ?? this.size + 1) - 1];
        while (least < top) {
          const middle = (least + top + 1) >> 1;
          if (this.#times[middle - 1]! <= at + ms) least = middle;
          else top = middle - 1;
        }
        const place = this.place(least) + at + ms - this.time(least);
        // What falls into a gap has no place. Gaps may be long, so they are not stepped through.
        const after = least < this.size ? this.place(least + 1) : end;
        if (place <= after) found.push({ place, ms });
        else if (least < this.size) ms = Math.max(ms, Math.ceil((this.time(least + 1) - at) / step) * step - step);
        else break;
      }
      return found;
    });
  }

  /** Where an event stands. */
  place(seq: number): number {
    return this.#places[Math.min(Math.max(1, seq), this.size) - 1] ?? 0;
  }

  /** Where the end stands: the last event, or `now`. */
  end(now: number): number {
    if (this.size === 0) return 1;
    return Math.max(1, this.#places.at(-1)! + this.#shown(Math.max(0, now - this.#times.at(-1)!)));
  }

  count(layer: number, seq: number): number {
    return this.#counts[layer]![Math.min(Math.max(1, seq), this.size) - 1] ?? 0;
  }

  /** The last event that stands no later than a place; 0 if there is none. */
  seqAt(place: number): number {
    let [least, most] = [0, this.size];
    while (least < most) {
      const middle = (least + most + 1) >> 1;
      if (this.#places[middle - 1]! <= place) least = middle;
      else most = middle - 1;
    }
    return least;
  }
}
