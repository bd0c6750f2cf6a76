// What one run page knows: the live graph, the past, the connection, and which moment is shown.
//
// Events are queued as they arrive and applied in frames, each within a time budget, so that a flood never blocks the
// page. Svelte sees one counter, `version`, that moves once a frame.

import type { Event } from '../gen/treeagent/v1/events_pb';
import type { Graph, Run } from '../gen/treeagent/v1/run_service_pb';
import { failure, runs, type Failure } from './api/client';
import { probe } from './probe';
import { History } from './projection/history';
import { isFinalRun } from './projection/model';
import { Projection } from './projection/projection';
import { snapshot as fromWire } from './projection/wire';
import { RunStream, type Connection } from './stream/watch';

/** Main-thread time that applying events may take of one frame. */
const FRAME_BUDGET_MS = 10;
const PAGE = 1000;
/** From so many nodes on what is shown changes at most this often: drawing costs more than applying then. */
const LARGE = 2000;
const LARGE_EVERY_MS = 80;
/** The past is read only once the present is on the screen. */
const BACKFILL_AFTER_MS = 250;
/** When it cannot be read, this long until the next try; doubled for each further one. */
const BACKFILL_RETRY_MS = 500;
const BACKFILL_LAST_RETRY_MS = 10_000;

export class RunSession {
  readonly runId: string;
  run = $state.raw<Run | undefined>();
  connection = $state<Connection>('connecting');
  why = $state.raw<Failure | undefined>();
  /** Moves when anything that is shown may have changed. */
  version = $state(0);
  /** The seq that is shown; undefined: live. */
  at = $state<number | undefined>();
  head = $state(0);
  /** Every event up to here is on this page. */
  loaded = $state(0);
  /** When the last message about the run arrived, by this machine's clock. */
  lastEventAt = $state(0);
  /** Why the past cannot be shown whole. */
  historyFailure = $state.raw<Failure | undefined>();

  history: History | undefined;
  #live: Projection | undefined;
  #shown: Projection | undefined;
  #stream: RunStream | undefined;
  #queue: Event[] = [];
  #later: ReturnType<typeof setTimeout> | undefined;
  #frame = 0;
  #applied = -Infinity;
  #closed = new AbortController();

  constructor(runId: string, at?: number) {
    this.runId = runId;
    this.at = at;
    void this.refreshRun();
    this.#watch();
  }

  close(): void {
    this.#closed.abort();
    clearTimeout(this.#later);
    this.#stream?.close();
    cancelAnimationFrame(this.#frame);
  }

  /** The graph at the moment that is shown; undefined while it loads. */
  get graph(): Projection | undefined {
    void this.version;
    return this.at === undefined ? this.#live : this.#shown;
  }

  get live(): Projection | undefined {
    void this.version;
    return this.#live;
  }

  get isLive(): boolean {
    return this.at === undefined;
  }

  /** False while what is shown may be old: nothing pulses then. */
  get fresh(): boolean {
    return this.isLive && (this.connection === 'live' || this.connection === 'catching-up');
  }

  async refreshRun(): Promise<void> {
    try {
      this.run = (await runs.getRun({ runId: this.runId }, { signal: this.#closed.signal })).run;
    } catch (error) {
      if (this.#closed.signal.aborted) return;
      const why = failure(error);
      if (why.kind === 'missing') this.#gone(why);
    }
  }

  retry(): void {
    if (this.connection === 'failed') void this.refreshRun();
    if (this.historyFailure !== undefined && this.history !== undefined) void this.#backfill(this.history);
    this.#stream?.retry();
  }

  /** Shows the state after event `seq`; at or beyond the head, or without one, the live state. */
  seek(seq: number | undefined): void {
    if (seq === undefined) this.at = undefined;
    else this.at = Math.max(0, Math.min(seq, this.head || seq));
    this.#showPast();
    this.version += 1;
  }

  #gone(why: Failure): void {
    this.#stream?.close();
    this.connection = 'failed';
    this.why = why;
  }

  #watch(): void {
    const { runId } = this;
    this.#stream = new RunStream(
      (afterSeq, snapshot, signal) => runs.watchRun({ runId, afterSeq, snapshot }, { signal }),
      {
        snapshot: (graph) => this.#begin(graph),
        event: (event) => this.#enqueue(event),
        head: (seq) => this.#sawHead(seq),
        finished: () => {
          this.#drain(Infinity);
          return this.#live !== undefined && isFinalRun(this.#live.status);
        },
        seq: () => (this.#live?.seq ?? 0) + this.#queue.length,
        connection: (state, why) => {
          this.connection = state;
          this.why = why;
          if (state === 'ended') void this.refreshRun();
        },
      },
    );
  }

  #begin(graph: Graph): void {
    this.#live = Projection.fromSnapshot(fromWire(graph));
    this.history = new History(this.runId, this.#live.shape, this.#live.seq);
    this.#queue = [];
    this.#sawHead(this.#live.seq);
    this.version += 1;
    const { history } = this;
    clearTimeout(this.#later);
    this.#later = setTimeout(() => void this.#backfill(history), this.at === undefined ? BACKFILL_AFTER_MS : 0);
  }

  #sawHead(seq: number): void {
    this.head = Math.max(this.head, seq);
    this.lastEventAt = Date.now();
  }

  /** Reads the log from its beginning up to the snapshot, beside everything else. */
  async #backfill(history: History, failures = 0): Promise<void> {
    clearTimeout(this.#later);
    try {
      while (history.complete < history.head && !this.#closed.signal.aborted) {
        const after = BigInt(history.complete);
        const request = { runId: this.runId, afterSeq: after, pageSize: PAGE };
        const page = await runs.listEvents(request, { signal: this.#closed.signal });
        this.historyFailure = undefined;
        failures = 0;
        const before = history.complete;
        history.fill(page.events);
        if (history.complete === before) break;
        this.loaded = history.complete;
        if (this.at !== undefined && this.#shown === undefined) this.#showPast();
        this.version += 1;
      }
      this.loaded = history.complete;
    } catch (error) {
      if (this.#closed.signal.aborted) return;
      const why = (this.historyFailure = failure(error));
      if (why.kind !== 'offline' && why.kind !== 'other') return;
      const wait = Math.min(BACKFILL_LAST_RETRY_MS, BACKFILL_RETRY_MS * 2 ** failures);
      this.#later = setTimeout(() => void this.#backfill(history, failures + 1), wait);
    }
  }

  #enqueue(event: Event): void {
    this.#queue.push(event);
    probe('received', Number(event.seq));
    this.lastEventAt = Date.now();
    if (this.#frame === 0) this.#frame = requestAnimationFrame(this.#applyFrame);
  }

  readonly #applyFrame = (now: number): void => {
    this.#frame = 0;
    const pace = (this.#live?.nodes.length ?? 0) < LARGE ? 0 : LARGE_EVERY_MS;
    if (now - this.#applied >= pace) {
      this.#applied = now;
      this.#drain(FRAME_BUDGET_MS);
    }
    if (this.#queue.length > 0) this.#frame = requestAnimationFrame(this.#applyFrame);
  };

  #drain(budget: number): void {
    const live = this.#live;
    const history = this.history;
    if (live === undefined || history === undefined || this.#queue.length === 0) return;
    const begun = performance.now();
    const until = begun + budget;
    let done = 0;
    try {
      for (const event of this.#queue) {
        // After a reconnect the first events may be known already.
        if (Number(event.seq) > live.seq) {
          live.applyEvent(event);
          history.append(event);
        }
        done += 1;
        if ((done & 31) === 0 && performance.now() > until) break;
      }
    } catch (error) {
      const detail = error instanceof Error ? error.message : String(error);
      this.#gone({ kind: 'other', title: 'The log of this run does not fit together', detail });
      done = this.#queue.length;
    }
    this.#queue = done === this.#queue.length ? [] : this.#queue.slice(done);
    this.head = Math.max(this.head, live.seq);
    this.loaded = history.complete;
    this.version += 1;
    probe('applied', live.seq, performance.now() - begun);
  }

  #showPast(): void {
    this.#shown = this.at === undefined ? undefined : this.history?.stateAt(this.at);
  }
}
