// The newest runs, kept up to date by WatchRuns.

import type { Run, WatchRunsResponse } from '../../gen/treeagent/v1/run_service_pb';

/** The newest runs that match the filters of a stream. */
export class NewestRuns {
  /** How many runs are wanted. */
  readonly size: number;
  /** Where the next stream begins; empty for a stream that begins with the newest runs. */
  resumeToken = '';
  /** False until the newest runs have arrived. */
  ready = false;
  #runs: Run[] = [];
  /** While a stream begins: the runs that it has sent. They replace all others once it has sent the newest ones. */
  #arriving: Run[] | undefined;
  /** All runs that match are here, however old. */
  #all = true;

  constructor(size: number) {
    this.size = size;
  }

  /** Newest first. */
  get runs(): Run[] {
    return this.#runs.slice(0, this.size);
  }

  /** There are older runs than `runs` holds. */
  get hasOlder(): boolean {
    return !this.#all || this.#runs.length > this.size;
  }

  /** One run more than is shown: it tells whether there are older ones. */
  get pageSize(): number {
    return this.size + 1;
  }

  /** A stream is opened with `pageSize` and `resumeToken`. */
  begin(): void {
    this.#arriving = this.resumeToken === '' ? [] : undefined;
  }

  /** Takes a message in. True when the stream has to be opened again. */
  take({ message }: WatchRunsResponse): boolean {
    switch (message.case) {
      case 'added':
      case 'changed':
        if (this.#arriving) put(this.#arriving, message.value);
        else this.#set(message.value);
        return false;
      case 'removed':
        return this.#remove(message.value.runId);
      case 'caughtUp':
        if (this.#arriving) {
          this.#all = this.#arriving.length < this.pageSize;
          this.#runs = this.#arriving;
          this.#arriving = undefined;
          this.ready = true;
        }
        this.resumeToken = message.value.resumeToken;
        return false;
      case 'heartbeat':
        this.resumeToken = message.value.resumeToken;
        return false;
      case 'resumeHint':
        this.resumeToken = message.value.resumeToken;
        return true;
      default:
        return false;
    }
  }

  #set(run: Run): void {
    const oldest = this.#runs.at(-1);
    const known = this.#runs.some((r) => r.runId === run.runId);
    // Between an old run and the oldest one here there may be others, so it has no place in the list.
    if (!known && !this.#all && oldest !== undefined && isNewer(oldest, run)) return;
    put(this.#runs, run);
    if (this.#runs.length > this.pageSize) {
      this.#runs.length = this.pageSize;
      this.#all = false;
    }
  }

  #remove(runId: string): boolean {
    this.#arriving = this.#arriving?.filter((run) => run.runId !== runId);
    this.#runs = this.#runs.filter((run) => run.runId !== runId);
    // Older runs move up, and only a new stream sends them.
    const missing = !this.#all && this.#runs.length < this.size;
    if (missing) this.resumeToken = '';
    return missing;
  }
}

/** Puts a run where it belongs, in the place of what was known of it. */
function put(runs: Run[], run: Run): void {
  const known = runs.findIndex((r) => r.runId === run.runId);
  if (known >= 0) runs.splice(known, 1);
  const older = runs.findIndex((r) => isNewer(run, r));
  runs.splice(older < 0 ? runs.length : older, 0, run);
}

/** The server's order. */
function isNewer(a: Run, b: Run): boolean {
  const [s, t] = [a.createdAt, b.createdAt];
  if (s?.seconds !== t?.seconds) return (s?.seconds ?? 0n) > (t?.seconds ?? 0n);
  if (s?.nanos !== t?.nanos) return (s?.nanos ?? 0) > (t?.nanos ?? 0);
  return a.runId > b.runId;
}
