// Keeps a stream open: opens it again when it ends or breaks, and closes it while the page is hidden.

import { failure, type Failure } from '../api/failure';

export interface Followed<Message> {
  /** Opens the stream where it was left. */
  open(signal: AbortSignal): AsyncIterable<Message>;
  /** Takes a message in. True when the stream has to be opened again. */
  take(message: Message): boolean;
  /** The stream broke, and is opened again after a pause. */
  lost?(why: Failure): void;
  /** Trying again in the same way would not help. True when the next opening is another one. */
  failed(why: Failure): boolean;
  /** Whether a stream that the server ends without a word has ended for good. */
  readonly ends: boolean;
}

const FIRST_RETRY_MS = 300;
const LAST_RETRY_MS = 10_000;
/** The gateway sends a heartbeat every 10 s. */
const SILENCE_MS = 25_000;

/** Returns when the stream has ended for good, the signal aborts, or trying again does not help. */
export async function follow<Message>(stream: Followed<Message>, signal: AbortSignal): Promise<void> {
  let failures = 0;
  while (!signal.aborted) {
    if (document.hidden) await shown(signal);
    else if (failures > 0) await pause(Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** failures), signal);
    const attempt = new Opening(signal);
    let again = false;
    try {
      for await (const message of stream.open(attempt.signal)) {
        attempt.heard();
        failures = 0;
        again = stream.take(message);
        if (again) break;
      }
      if (signal.aborted || (stream.ends && !again)) return;
      if (!again) failures += 1;
    } catch (error) {
      if (signal.aborted) return;
      if (attempt.hidden) continue;
      const why = attempt.silent ? SILENT : failure(error);
      failures += 1;
      if (why.kind === 'offline' || why.kind === 'other') stream.lost?.(why);
      else if (!stream.failed(why)) return;
    } finally {
      attempt.close();
    }
  }
}

const SILENT: Failure = { kind: 'offline', title: 'The gateway does not answer', detail: 'no message for 25 seconds' };

/** One opening of the stream, which ends when the page is hidden or nothing arrives for too long. */
class Opening {
  hidden = false;
  silent = false;
  readonly #abort = new AbortController();
  readonly #outer: AbortSignal;
  #silence: ReturnType<typeof setTimeout> | undefined;

  constructor(outer: AbortSignal) {
    this.#outer = outer;
    outer.addEventListener('abort', this.#stop);
    document.addEventListener('visibilitychange', this.#hide);
    this.heard();
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  heard(): void {
    clearTimeout(this.#silence);
    this.#silence = setTimeout(() => {
      this.silent = true;
      this.#stop();
    }, SILENCE_MS);
  }

  /** Ends the request too, when it is still open. */
  close(): void {
    this.#stop();
    clearTimeout(this.#silence);
    this.#outer.removeEventListener('abort', this.#stop);
    document.removeEventListener('visibilitychange', this.#hide);
  }

  readonly #stop = (): void => this.#abort.abort();

  readonly #hide = (): void => {
    if (!document.hidden) return;
    this.hidden = true;
    this.#stop();
  };
}

function shown(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener('visibilitychange', done);
      resolve();
    };
    document.addEventListener('visibilitychange', done);
    signal.addEventListener('abort', done);
  });
}

/** Waits, but not longer than until the browser is online again or the signal aborts. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      removeEventListener('online', end);
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    addEventListener('online', end);
    signal.addEventListener('abort', end);
  });
}
