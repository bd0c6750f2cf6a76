// The forks of a run while it is shown. Their events are not in the stream of the run, so the server is asked for them.

import type { Run } from '../gen/treeagent/v1/run_service_pb';
import { failure, failureWords, runs, type Failure } from './api/client';
import { auth } from './auth.svelte';
import type { RunSession } from './session.svelte';
import { forkedWords } from './steering/words';

/** The newest forks that are shown. */
export const MOST_FORKS = 20;
/** The pause between two questions while the page is visible. */
const EVERY_MS = 3000;

export class RunForks {
  /** Newest first. */
  list = $state.raw<readonly Run[]>([]);
  hasOlder = $state(false);
  /** The run that this one is a fork of; undefined until it was read, and if it was deleted. */
  parent = $state.raw<Run | undefined>();
  parentProblem = $state('');
  /** Why the list may be old. */
  why = $state.raw<Failure | undefined>();
  readonly #session: RunSession;
  /** The newest fork so far; undefined until the first answer. Later runs have greater ids. */
  #newest: string | undefined;

  constructor(session: RunSession) {
    this.#session = session;
  }

  /** Asks until the returned function is called. */
  start(): () => void {
    const ended = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = async (): Promise<void> => {
      if (!document.hidden) await this.#ask(ended.signal);
      if (!ended.signal.aborted) timer = setTimeout(look, EVERY_MS);
    };
    void look();
    return () => {
      ended.abort();
      clearTimeout(timer);
    };
  }

  /** Reads the run that this one is a fork of. Returns what ends it. */
  readParent(runId: string): () => void {
    const abort = new AbortController();
    runs.getRun({ runId }, { signal: abort.signal }).then(
      ({ run }) => ([this.parent, this.parentProblem] = [run, '']),
      (error: unknown) => {
        const why = failure(error);
        if (abort.signal.aborted || why.kind === 'missing') return;
        auth.report(why);
        this.parentProblem = failureWords(why);
      },
    );
    return () => abort.abort();
  }

  async #ask(signal: AbortSignal): Promise<void> {
    const { runId } = this.#session;
    try {
      const page = await runs.listRuns({ parentRunId: runId, pageSize: MOST_FORKS }, { signal });
      if (signal.aborted) return;
      // A server that knows no forks answers with every run.
      this.list = page.runs.filter((other) => other.parentRunId === runId);
      this.hasOlder = this.list.length > 0 && page.nextPageToken !== '';
      this.why = undefined;
      this.#tell();
    } catch (error) {
      if (signal.aborted) return;
      const why = failure(error);
      // A run that was deleted has no forks to show.
      this.why = why.kind === 'missing' ? undefined : why;
      auth.report(why);
    }
  }

  /** Tells who watches the run that somebody has forked it. */
  #tell(): void {
    const newest = this.list[0];
    const before = this.#newest;
    this.#newest = newest?.runId ?? before ?? '';
    const root = this.#session.live?.nodes[0];
    if (newest === undefined || root === undefined || before === undefined || newest.runId <= before) return;
    this.#session.command = { seq: Number(newest.parentSeq), nodeId: root.id, words: forkedWords(newest) };
  }
}
