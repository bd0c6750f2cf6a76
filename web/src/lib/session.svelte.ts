// The state of one run page: the live graph, past states, the connection, and which moment is shown.
//
// Events are queued as they arrive and applied once a frame, within a time budget, so a flood never blocks the
// page. Svelte observes one counter, `version`, that is incremented once a frame.

import { NodeStatus } from '../gen/treeagent/v1/common_pb';
import type { Event } from '../gen/treeagent/v1/events_pb';
import type { Graph, Run } from '../gen/treeagent/v1/run_service_pb';
import { failure, runs, type Failure } from './api/client';
import { documentsOf } from './document-log';
import { commandWords } from './steering/words';
import { probe } from './probe';
import { History } from './projection/history';
import { isFinalRun } from './projection/model';
import { Projection } from './projection/projection';
import { snapshot as fromWire, time } from './projection/wire';
import { followRun, type Calls, type Message } from './stream/poll';
import { RunStream, type Connection } from './stream/watch';
import { Course } from './time/course';
import { ticker } from './ticker.svelte';
import { ToolCalls } from './tool-calls';

/** How much of a frame's main-thread time applying events may take. */
const FRAME_BUDGET_MS = 10;
const PAGE = 1000;
/** A run with this many nodes is redrawn at most every `LARGE_EVERY_MS`, because drawing costs more than applying. */
const LARGE = 2000;
const LARGE_EVERY_MS = 80;
/** The older events are read after the live graph is on the screen. */
const BACKFILL_AFTER_MS = 250;
/** If that fails, it is retried after this long; the pause doubles with every failure. */
const BACKFILL_RETRY_MS = 500;
const BACKFILL_LAST_RETRY_MS = 10_000;
/** Delegating takes no time. While live it is shown for this long, so that one can see it. */
const DELEGATING_MS = 600;
const POSE_EVERY_MS = 200;

export class RunSession {
  readonly runId: string;
  run = $state.raw<Run | undefined>();
  connection = $state<Connection>('connecting');
  why = $state.raw<Failure | undefined>();
  /** Incremented when anything on the screen may have changed. */
  version = $state(0);
  /** The seq that is shown; undefined means live. */
  at = $state<number | undefined>();
  head = $state(0);
  /** All events up to this seq have been loaded. */
  loaded = $state(0);
  /** When the last message about the run arrived, by the browser's clock. */
  lastEventAt = $state(0);
  /** The last event about each document since the page was opened. */
  readonly touched = new Map<string, number>();
  /** Incremented when such an event names a document that none before it has named. */
  named = $state(0);
  /** The latest command that was carried out since the page was opened. */
  command = $state.raw<{ seq: number; nodeId: string; words: string } | undefined>();
  /** The run had not ended when this page began to watch it. */
  watched = false;
  /** Why the past cannot be loaded. */
  historyFailure = $state.raw<Failure | undefined>();

  history: History | undefined;
  #live: Projection | undefined;
  #shown: Projection | undefined;
  /** Nodes that have just delegated, and until when that is shown; and the live graph as it is shown meanwhile. */
  readonly #delegated = new Map<string, number>();
  #posed: Projection | undefined;
  #posing: ReturnType<typeof setTimeout> | undefined;
  #stream: RunStream | undefined;
  #queue: Event[] = [];
  #later: ReturnType<typeof setTimeout> | undefined;
  #frame = 0;
  #applied = -Infinity;
  /** How far the server's clock is behind the browser's, in milliseconds. */
  #behind: number | undefined;
  #lastRequest = '';
  #course: { of: History; course: Course } | undefined;
  readonly #calls = new ToolCalls();
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
    clearTimeout(this.#posing);
    this.#stream?.close();
    cancelAnimationFrame(this.#frame);
  }

  /** The graph at the moment shown; undefined while it loads. */
  get graph(): Projection | undefined {
    void this.version;
    return this.at === undefined ? (this.#posed ?? this.#live) : this.#shown;
  }

  get live(): Projection | undefined {
    void this.version;
    return this.#live;
  }

  get isLive(): boolean {
    return this.at === undefined;
  }

  /**
   * The moment that is shown, by the server's clock, in milliseconds since 1970. It stands still while the page may be
   * out of date.
   */
  get moment(): number {
    void this.version;
    if (this.at === undefined) return (this.fresh ? ticker.now : this.lastEventAt) - (this.#behind ?? 0);
    const timestamp = this.history?.event(Math.max(1, this.at))?.timestamp;
    return timestamp === undefined ? this.lastEventAt : time(timestamp);
  }

  /** The course of the run over the events that are known from the first one on. */
  get course(): Course {
    void this.version;
    const { history } = this;
    if (history === undefined) return new Course();
    if (this.#course?.of !== history) this.#course = { of: history, course: new Course() };
    const { course } = this.#course;
    for (const event of history.from(course.size)) course.add(event);
    return course;
  }

  /** When the clock of the run began, in milliseconds since 1970. That of a fork begins with it. */
  get begin(): number | undefined {
    // The row of the run may have been read before it began.
    return this.run?.startedAt === undefined ? this.course.begin : time(this.run.startedAt);
  }

  /**
   * How long the run has run at the moment that is shown, in milliseconds; undefined before it begins. This is the one
   * clock of the page. That of a fork begins with it, and what it shares is on the clock of its source.
   */
  get ran(): number | undefined {
    const { at, begin, course, run } = this;
    if (at !== undefined) return at <= course.size ? course.elapsed(at) : undefined;
    // That of a run which has just ended has no end yet.
    const last = isFinalRun(this.#live?.status ?? 'queued') ? this.#live?.nodes[0]?.endedAt : undefined;
    const end = run?.endedAt === undefined ? (last ?? this.moment) : time(run.endedAt);
    return begin === undefined ? undefined : Math.max(0, end - begin);
  }

  /** What a call of a tool is about, such as the name of a document; undefined if its event has not been read. */
  readonly subject = (callId: string): string | undefined => this.#calls.subject(callId);

  /** False while the page may be out of date. Nothing pulses then. */
  get fresh(): boolean {
    return this.isLive && ['live', 'catching-up', 'polling'].includes(this.connection);
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

  /** Shows the state after event `seq`, or the live state when it is undefined. */
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
    this.#stream = new RunStream((afterSeq, snapshot, signal) => this.#open(afterSeq, snapshot, signal), {
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
    });
  }

  /** The graph is read apart from the stream, because that is not compressed. */
  async *#open(afterSeq: bigint, snapshot: boolean, signal: AbortSignal): AsyncGenerator<Message> {
    const { runId } = this;
    if (snapshot) {
      const { graph } = await runs.getGraph({ runId }, { signal });
      yield { message: { case: 'snapshot', value: graph! } };
      afterSeq = graph!.seq;
    }
    const calls: Calls = {
      stream: (after, signal) => runs.watchRun({ runId, afterSeq: after }, { signal }),
      list: (after, pageSize, signal) => runs.listEvents({ runId, afterSeq: after, pageSize }, { signal }),
    };
    yield* followRun(calls, afterSeq, signal);
  }

  #begin(graph: Graph): void {
    this.#live = Projection.fromSnapshot(fromWire(graph));
    this.history = new History(this.runId, this.#live.shape, this.#live.seq);
    this.watched ||= !isFinalRun(this.#live.status);
    this.#queue = [];
    this.#delegated.clear();
    this.#posed = undefined;
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

  /** Reads the log in the background, from the first event up to the snapshot. */
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
        for (const event of page.events) this.#calls.note(event);
        if (history.complete === before) break;
        this.loaded = history.complete;
        if (this.at !== undefined && this.#shown === undefined) this.#showPast();
        this.version += 1;
      }
      this.loaded = history.complete;
      if (history.whole !== undefined) this.#live?.learn(history.whole);
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
    // The event with the least delay in it tells best how the clocks differ.
    this.#behind = Math.min(this.#behind ?? Infinity, this.lastEventAt - time(event.timestamp));
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
    const startedAt = performance.now();
    const until = startedAt + budget;
    let done = 0;
    try {
      for (const event of this.#queue) {
        // After a reconnect the first events may already be known.
        if (Number(event.seq) > live.seq) {
          live.applyEvent(event);
          history.append(event);
          this.#calls.note(event);
          this.#touch(event);
        }
        done += 1;
        if ((done & 31) === 0 && performance.now() > until) break;
      }
    } catch (error) {
      const detail = error instanceof Error ? error.message : String(error);
      this.#gone({ kind: 'other', title: 'The log of this run is inconsistent', detail });
      done = this.#queue.length;
    }
    this.#queue = done === this.#queue.length ? [] : this.#queue.slice(done);
    this.head = Math.max(this.head, live.seq);
    this.loaded = history.complete;
    this.#pose();
    this.version += 1;
    probe('applied', live.seq, performance.now() - startedAt);
  }

  #touch(event: Event): void {
    this.#noteCommand(event);
    const { body, nodeId } = event;
    if (body.case === 'nodeStatus' && body.value.status === NodeStatus.DELEGATING && this.connection === 'live') {
      this.#delegated.set(nodeId, performance.now() + DELEGATING_MS);
    }
    for (const id of documentsOf(event)) {
      if (!this.touched.has(id)) this.named += 1;
      this.touched.set(id, Number(event.seq));
    }
  }

  /** Makes the graph that is shown, if nodes that wait by now are still shown as delegating. */
  readonly #pose = (): void => {
    const now = performance.now();
    clearTimeout(this.#posing);
    for (const [id, until] of this.#delegated) {
      const status = this.#live?.node(id)?.status;
      if (until <= now || (status !== 'waiting' && status !== 'delegating')) this.#delegated.delete(id);
    }
    const before = this.#posed;
    this.#posed = this.#delegated.size === 0 ? undefined : this.#live?.clone();
    this.#posed?.pose(this.#delegated.keys(), 'delegating');
    if (this.#posed !== undefined) this.#posing = setTimeout(this.#pose, POSE_EVERY_MS);
    if (this.#posed !== before) this.version += 1;
  };

  #noteCommand({ seq, nodeId, body }: Event): void {
    const words = body.case === 'callStopped' ? undefined : commandWords(body);
    if (words === undefined) return;
    // What follows from the same command is told with it.
    const requestId = 'requestId' in body.value! ? body.value.requestId : '';
    if (requestId === '' || requestId !== this.#lastRequest) this.command = { seq: Number(seq), nodeId, words };
    this.#lastRequest = requestId;
    // The row of the run has its budgets.
    if (body.case === 'budgetSet') void this.refreshRun();
  }

  #showPast(): void {
    this.#shown = this.at === undefined ? undefined : this.history?.stateAt(this.at);
  }
}
