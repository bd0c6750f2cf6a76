// The comparison of two runs, read page by page.

import type { DiffCounts, NodeDiff, NodeMatching, RunTotals, TextDiff } from '../../gen/treeagent/v1/run_diff_pb';
import type { Run } from '../../gen/treeagent/v1/run_service_pb';
import { runs, type Failure } from '../api/client';
import { auth } from '../auth.svelte';
import { diffRows, type DiffRow, type Side } from './rows';

/** The most that the server gives. */
const PAGE = 10_000;

export interface Compared {
  a: string;
  b: string;
  /** The moments; the heads when 0. */
  aSeq: number;
  bSeq: number;
}

export class RunsCompared {
  a = $state.raw<RunTotals | undefined>();
  b = $state.raw<RunTotals | undefined>();
  runs = $state.raw<Partial<Record<Side, Run>>>({});
  matching = $state<NodeMatching>(0);
  counts = $state.raw<DiffCounts | undefined>();
  synthesis = $state.raw<TextDiff | undefined>();
  rows = $state.raw<DiffRow[]>([]);
  why = $state.raw<Failure | undefined>();

  /** Reads everything. Returns what ends it. */
  start(asked: Compared): () => void {
    const closed = new AbortController();
    void this.#read(asked, closed.signal);
    this.#name('a', asked.a, closed.signal);
    this.#name('b', asked.b, closed.signal);
    return () => closed.abort();
  }

  async #read({ a, b, aSeq, bSeq }: Compared, signal: AbortSignal): Promise<void> {
    this.why = undefined;
    const nodes: NodeDiff[] = [];
    try {
      for (let pageToken = ''; ;) {
        const page = await runs.diffRuns(
          { a, b, aSeq: BigInt(aSeq), bSeq: BigInt(bSeq), pageSize: PAGE, pageToken },
          { signal },
        );
        if (signal.aborted) return;
        [this.a, this.b, this.matching, this.counts] = [page.a, page.b, page.matching, page.counts];
        this.synthesis = page.synthesis ?? this.synthesis;
        nodes.push(...page.nodes);
        pageToken = page.nextPageToken;
        if (pageToken === '') break;
      }
      this.rows = diffRows(nodes);
    } catch (error) {
      if (signal.aborted) return;
      this.why = auth.caught(error);
    }
  }

  /** Without names the ids are shown. */
  #name(side: Side, runId: string, signal: AbortSignal): void {
    runs.getRun({ runId }, { signal }).then(
      ({ run }) => run && (this.runs = { ...this.runs, [side]: run }),
      () => {},
    );
  }
}
