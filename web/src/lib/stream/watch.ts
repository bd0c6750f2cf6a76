// The stream of one run: delivers every event once and in order, and resumes by seq after a failure.
//
// Over HTTP/1.1 a browser allows six connections per origin, shared by all tabs. So a page holds one stream, and none
// while it is hidden. A page opened in the background opens its stream when it is first shown.

import type { Event } from '../../gen/treeagent/v1/events_pb';
import type { Graph } from '../../gen/treeagent/v1/run_service_pb';
import { failure, type Failure } from '../api/client';
import type { Message } from './poll';

export type Connection =
  | 'connecting'
  | 'catching-up'
  | 'live'
  /** Streams are held back on their way, so new events are asked for again and again. */
  | 'polling'
  | 'reconnecting'
  /** Several tries have failed, so the page may be out of date. */
  | 'stale'
  /** The page is hidden, so its stream is closed. */
  | 'paused'
  /** The run has ended and everything has arrived. */
  | 'ended'
  /** Trying again would not help. */
  | 'failed';

export interface Watcher {
  snapshot(graph: Graph): void;
  event(event: Event): void;
  head(seq: number): void;
  connection(state: Connection, why?: Failure): void;
  /** True when the run's last event has arrived, so a stream that ends has ended for good. */
  finished(): boolean;
  seq(): number;
}

export type Open = (afterSeq: bigint, snapshot: boolean, signal: AbortSignal) => AsyncIterable<Message>;

/** The gateway sends a heartbeat every 10 s. */
const SILENCE_MS = 25_000;
/** After more failed tries than this the connection counts as stale. */
const STALE_AFTER = 2;
const FIRST_RETRY_MS = 300;
const LAST_RETRY_MS = 10_000;
/** How long receiving may occupy the main thread at a time. */
const SLICE_MS = 8;
/** A page that is hidden for a shorter time keeps its stream. */
const HIDDEN_MS = 5_000;

export class RunStream {
  #abort: AbortController | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #silence: ReturnType<typeof setInterval> | undefined;
  #heard = 0;
  #hiding: ReturnType<typeof setTimeout> | undefined;
  #failures = 0;
  #hasSnapshot = false;
  /** This stream has delivered everything that had happened when it was opened. */
  #caughtUp = false;
  #closed = false;
  readonly #open: Open;
  readonly #to: Watcher;

  constructor(open: Open, to: Watcher) {
    this.#open = open;
    this.#to = to;
    document.addEventListener('visibilitychange', this.#visibility);
    addEventListener('online', this.#online);
    if (document.hidden) to.connection('paused');
    else void this.#connect();
  }

  close(): void {
    this.#closed = true;
    document.removeEventListener('visibilitychange', this.#visibility);
    removeEventListener('online', this.#online);
    clearTimeout(this.#hiding);
    this.#stop();
  }

  /** Tries again now, without waiting. */
  retry(): void {
    this.#stop();
    this.#failures = 0;
    void this.#connect();
  }

  #stop(): void {
    clearTimeout(this.#timer);
    clearInterval(this.#silence);
    this.#abort?.abort();
    this.#abort = undefined;
  }

  readonly #visibility = (): void => {
    clearTimeout(this.#hiding);
    if (document.hidden) {
      this.#hiding = setTimeout(() => {
        if (this.#to.finished()) return;
        this.#stop();
        this.#to.connection('paused');
      }, HIDDEN_MS);
    } else if (this.#abort === undefined && !this.#to.finished()) this.retry();
  };

  readonly #online = (): void => {
    if (!document.hidden && !this.#to.finished()) this.retry();
  };

  async #connect(): Promise<void> {
    const abort = new AbortController();
    this.#abort = abort;
    this.#caughtUp = false;
    if (!this.#hasSnapshot) this.#to.connection('connecting');
    try {
      this.#listen(abort);
      let breathe = performance.now() + SLICE_MS;
      for await (const message of this.#open(BigInt(this.#to.seq()), !this.#hasSnapshot, abort.signal)) {
        if (abort.signal.aborted) return;
        this.#heard = performance.now();
        if (this.#receive(message)) break;
        if (this.#heard < breathe) continue;
        // Messages that arrived together are delivered without a pause, so a flood would block everything else.
        await new Promise((resolve) => setTimeout(resolve));
        breathe = performance.now() + SLICE_MS;
      }
      if (abort.signal.aborted) return;
      if (this.#to.finished()) this.#end();
      else this.#again();
    } catch (error) {
      if (this.#abort !== abort) return;
      this.#failed(failure(error));
    }
  }

  /** Reconnects when no message arrives for too long. */
  #listen(abort: AbortController): void {
    clearInterval(this.#silence);
    this.#heard = performance.now();
    this.#silence = setInterval(() => {
      if (this.#abort !== abort || performance.now() - this.#heard < SILENCE_MS) return;
      this.#stop();
      this.#failed({ kind: 'offline', title: 'The gateway went silent', detail: 'no message for 25 seconds' });
    }, SILENCE_MS / 10);
  }

  /** Returns true when the server is about to close the stream. */
  #receive({ message }: Message): boolean {
    this.#failures = 0;
    switch (message.case) {
      case 'snapshot':
        this.#hasSnapshot = true;
        this.#to.snapshot(message.value);
        this.#to.connection('catching-up');
        return false;
      case 'event':
        if (!this.#caughtUp) this.#to.connection('catching-up');
        this.#to.event(message.value);
        return false;
      case 'caughtUp':
        this.#caughtUp = true;
        this.#to.head(Number(message.value.seq));
        this.#to.connection('live');
        return false;
      case 'heartbeat':
        this.#to.head(Number(message.value.headSeq));
        return false;
      case 'polling':
        this.#caughtUp = true;
        this.#to.connection('polling');
        return false;
      case 'resumeHint':
        return true;
      default:
        return false;
    }
  }

  #end(): void {
    this.#stop();
    this.#to.connection('ended');
  }

  /** The stream ended without an error, but the run has not ended: resume at once. */
  #again(): void {
    this.#stop();
    if (this.#closed) return;
    this.#to.connection('reconnecting');
    this.#timer = setTimeout(() => void this.#connect(), FIRST_RETRY_MS / 2);
  }

  #failed(why: Failure): void {
    this.#stop();
    if (this.#closed) return;
    if (why.kind === 'missing' || why.kind === 'denied' || why.kind === 'signed-out' || why.kind === 'invalid') {
      this.#to.connection('failed', why);
      return;
    }
    this.#failures += 1;
    this.#to.connection(this.#failures > STALE_AFTER ? 'stale' : 'reconnecting', why);
    const wait = Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** this.#failures) * (0.75 + Math.random() / 2);
    this.#timer = setTimeout(() => void this.#connect(), wait);
  }
}
