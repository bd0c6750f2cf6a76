// The list of runs as the page shows it: the newest runs follow a stream, older ones are read page by page.

import type { Run, WatchRunsResponse } from '../gen/treeagent/v1/run_service_pb';
import { failure, runs, type Failure } from './api/client';
import { auth } from './auth.svelte';
import type { RunFilter } from './run-filter';
import { follow } from './stream/follow';
import { NewestRuns } from './stream/runs';

const PAGE = 25;

export class RunsList {
  /** Undefined until the first answer. */
  shown = $state.raw<Run[] | undefined>();
  /** Why what is shown may be old. */
  why = $state.raw<Failure | undefined>();
  /** From 1, the newest runs. */
  page = $state(1);
  hasOlder = $state(false);
  /** Not all runs are shown. */
  filtered = $state(false);
  #filter: RunFilter = {};
  #newest = new NewestRuns(PAGE);
  /** Tokens of the pages after the first. */
  #tokens: string[] = [];
  #nextToken = '';
  #closed = new AbortController();

  /** Shows the newest runs that match. What is shown already stays until they arrive. Returns what ends it. */
  start(filter: RunFilter): () => void {
    const closed = new AbortController();
    const newest = new NewestRuns(PAGE);
    this.#filter = filter;
    this.filtered = Object.values(filter).some((value) => (Array.isArray(value) ? value.length > 0 : Boolean(value)));
    this.#newest = newest;
    this.#closed = closed;
    this.page = 1;
    this.#tokens = [];
    void follow<WatchRunsResponse>(
      {
        ends: false,
        open: (signal) => {
          newest.begin();
          const { pageSize, resumeToken } = newest;
          return runs.watchRuns({ ...filter, pageSize, resumeToken }, { signal });
        },
        take: (message) => {
          const again = newest.take(message);
          this.#message(message.message);
          return again;
        },
        lost: (why) => this.#failed(why),
        failed: (why) => {
          // A server that was replaced may not know the token any more.
          const stale = why.kind === 'invalid' && newest.resumeToken !== '';
          newest.resumeToken = '';
          if (!stale) this.#failed(why);
          return stale;
        },
      },
      closed.signal,
    );
    return () => closed.abort();
  }

  async older(): Promise<void> {
    // The token of the second page is that of a page which is read now.
    const token = this.page > 1 ? this.#nextToken : (await this.#read(''))?.nextPageToken;
    if (token) await this.#show([...this.#tokens, token]);
  }

  async newer(): Promise<void> {
    await this.#show(this.#tokens.slice(0, -1));
  }

  async #show(tokens: string[]): Promise<void> {
    const token = tokens.at(-1);
    const page = token === undefined ? undefined : await this.#read(token);
    if (token !== undefined && page === undefined) return;
    this.#tokens = tokens;
    this.page = tokens.length + 1;
    this.#nextToken = page?.nextPageToken ?? '';
    if (page === undefined) this.#showNewest();
    else {
      this.shown = page.runs;
      this.hasOlder = page.nextPageToken !== '';
    }
  }

  async #read(pageToken: string) {
    const { signal } = this.#closed;
    try {
      const page = await runs.listRuns({ ...this.#filter, pageSize: PAGE, pageToken }, { signal });
      return signal.aborted ? undefined : page;
    } catch (error) {
      if (!signal.aborted) this.#failed(failure(error));
      return undefined;
    }
  }

  #message(message: WatchRunsResponse['message']): void {
    this.why = undefined;
    if (this.page === 1) this.#showNewest();
    else if (message.case === 'changed')
      this.shown = this.shown?.map((run) => (run.runId === message.value.runId ? message.value : run));
    else if (message.case === 'removed') this.shown = this.shown?.filter((run) => run.runId !== message.value.runId);
  }

  #showNewest(): void {
    if (!this.#newest.ready) return;
    this.shown = this.#newest.runs;
    this.hasOlder = this.#newest.hasOlder;
  }

  #failed(why: Failure): void {
    this.why = why;
    auth.report(why);
  }
}
