// The loaded part of the log, and the state after any of its events.
//
// A page opens with a snapshot of the head and receives the tail after it. The events before the snapshot arrive later,
// in order from the first. So until they meet there are two parts: `old` (from 1) and `tail` (after the snapshot).

import type { Event } from '../../gen/treeagent/v1/events_pb';
import { Projection } from './projection';
import type { Shape } from './shape';

/** A state is kept every so many events, which limits how many a seek replays. */
const KEYFRAME_EVERY = 1000;

export class History {
  readonly #base: number;
  readonly #old: Event[] = [];
  readonly #tail: Event[] = [];
  readonly #replay: Projection;
  readonly #keyframes: Projection[];
  #cursor: Projection;

  /** `base` is the seq of the snapshot; 0 when there was none. */
  constructor(runId: string, shape: Shape, base: number) {
    this.#base = base;
    this.#replay = new Projection(runId, shape);
    this.#keyframes = [this.#replay.clone()];
    this.#cursor = this.#replay.clone();
  }

  /** The last known event of the log. */
  get head(): number {
    return this.#base + this.#tail.length;
  }

  /** All events up to this one are known. */
  get complete(): number {
    return this.gapless ? this.head : this.#old.length;
  }

  /** The number of events that `from` yields. */
  get size(): number {
    return this.gapless ? this.head : this.#old.length;
  }

  /** Adds the next event after the snapshot. */
  append(event: Event): void {
    this.#tail.push(event);
    if (this.complete === this.head) this.#advance(event);
  }

  /** Adds the next events before the snapshot. Those at or after it are ignored: the tail has them. */
  fill(events: Event[]): void {
    for (const event of events) {
      if (Number(event.seq) !== this.#old.length + 1 || this.#old.length >= this.#base) continue;
      this.#old.push(event);
      this.#advance(event);
      if (this.#old.length === this.#base) for (const later of this.#tail) this.#advance(later);
    }
  }

  #advance(event: Event): void {
    this.#replay.applyEvent(event);
    if (this.#replay.seq % KEYFRAME_EVERY === 0) this.#keyframes.push(this.#replay.clone());
  }

  /** The state after the last event; undefined while there is a gap. */
  get whole(): Projection | undefined {
    return this.gapless ? this.#replay : undefined;
  }

  /** One event, when it is known. */
  event(seq: number): Event | undefined {
    return seq > this.#base ? this.#tail[seq - this.#base - 1] : this.#old[seq - 1];
  }

  /** True once the two parts have met. */
  get gapless(): boolean {
    return this.#old.length >= this.#base;
  }

  /** The known events in order, without the first `skip`. While there is a gap, only those before it. */
  *from(skip: number): Generator<Event> {
    for (let i = skip; i < this.#old.length; i++) yield this.#old[i]!;
    if (!this.gapless) return;
    for (let i = Math.max(0, skip - this.#old.length); i < this.#tail.length; i++) yield this.#tail[i]!;
  }

  /** The state after event `seq`, as a replay of 1..seq gives it. Undefined until all of those are known. */
  stateAt(seq: number): Projection | undefined {
    if (seq < 0 || seq > this.complete) return undefined;
    const keyframe = this.#keyframes[Math.floor(seq / KEYFRAME_EVERY)]!;
    // Continuing from the last answer is cheaper than starting from a keyframe.
    const from = this.#cursor.seq <= seq && this.#cursor.seq > keyframe.seq ? this.#cursor : keyframe;
    const state = from.clone();
    for (let next = from.seq + 1; next <= seq; next++) state.applyEvent(this.event(next)!);
    this.#cursor = state;
    return state;
  }
}
