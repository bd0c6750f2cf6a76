// The documents of a run while it is shown: read page by page, and again when the log says that there is a new one.

import { untrack } from 'svelte';
import type { DocumentSummary } from '../gen/treeagent/v1/document_service_pb';
import { documents, failure, type Failure } from './api/client';
import { auth } from './auth.svelte';
import { isFirst } from './document-kinds';
import { DocumentLog } from './document-log';
import { DocumentTree } from './document-tree';
import type { RunSession } from './session.svelte';

/** The server gives at most this many documents at once. */
const PAGE = 1000;
/** New documents come in bursts. */
const AFTER_EVENT_MS = 300;
const EVERY_MS = 1000;
/** The list of a large run is read seldom: reading takes at most one part in so many of the time. */
const PART = 20;

export class RunDocuments {
  /** Undefined until the first page is there. */
  list = $state.raw<readonly DocumentSummary[] | undefined>();
  why = $state.raw<Failure | undefined>();
  /** The first reading goes on. */
  complete = $state(false);
  /** Rows that somebody closed. */
  closed = $state.raw<ReadonlySet<string>>(new Set());
  readonly #session: RunSession;
  readonly #log = new DocumentLog();
  #known: ReadonlySet<string> = new Set();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #reading = false;
  #closed = new AbortController();
  /** When the next reading may begin. */
  #next = 0;

  constructor(session: RunSession) {
    this.#session = session;
  }

  /** What the log says about documents, as far as it has been read. */
  get log(): DocumentLog {
    void this.#session.version;
    this.#log.read(this.#session.history);
    return this.#log;
  }

  /** The documents that exist at the moment that is shown. */
  readonly shown = $derived.by<readonly DocumentSummary[] | undefined>(() => {
    const { at, graph } = this.#session;
    if (at === undefined || this.list === undefined) return this.list;
    if (graph === undefined) return undefined;
    const { log } = this;
    return this.list.filter((document) => {
      const created = log.created(document.documentId);
      if (created !== undefined) return created <= at;
      return at > 0 && (isFirst(document) || document.nodeId === undefined || graph.position(document.nodeId) >= 0);
    });
  });

  readonly #ready = $derived.by(() => this.#session.live !== undefined);

  /** Undefined while it loads. */
  readonly tree = $derived.by(() => {
    const { shown } = this;
    if (shown === undefined || !this.#ready) return undefined;
    // Nodes keep their positions, so that other events than new documents change nothing here.
    const graph = untrack(() => this.#session.live);
    return new DocumentTree(shown, { position: (id) => graph?.position(id) ?? -1 });
  });

  readonly rows = $derived(this.tree?.rows(this.closed) ?? []);

  toggle(id: string, open: boolean): void {
    const next = new Set(this.closed);
    if (open) next.delete(id);
    else next.add(id);
    this.closed = next;
  }

  /** Reads the list. Returns what ends the reading. */
  start(): () => void {
    this.#closed = new AbortController();
    this.#next = 0;
    this.refresh(0);
    return () => {
      this.#closed.abort();
      clearTimeout(this.#timer);
      this.#timer = undefined;
    };
  }

  /** Reads the list again if the log has named a document that is not in it. */
  refreshIfNamed(): void {
    if ([...this.#session.touched.keys()].some((id) => !this.#known.has(id))) this.refresh();
  }

  /** Reads the list again, soon. */
  refresh(after = AFTER_EVENT_MS): void {
    const { signal } = this.#closed;
    if (signal.aborted || this.#timer !== undefined) return;
    this.#timer = setTimeout(
      () => {
        this.#timer = undefined;
        if (this.#reading) this.refresh();
        else void this.#read(signal);
      },
      Math.max(after, this.#next - performance.now()),
    );
  }

  async #read(signal: AbortSignal): Promise<void> {
    const startedAt = performance.now();
    const read: DocumentSummary[] = [];
    this.#reading = true;
    try {
      for (let pageToken = '', first = true; first || pageToken !== ''; first = false) {
        const page = await documents.listDocuments(
          { runId: this.#session.runId, pageSize: PAGE, pageToken },
          { signal },
        );
        read.push(...page.documents);
        pageToken = page.nextPageToken;
        // What was read before stays until the new list is whole.
        if (!this.complete || pageToken === '') this.list = read.slice();
      }
      this.complete = true;
      this.why = undefined;
      this.#known = new Set(read.map((document) => document.documentId));
    } catch (error) {
      if (signal.aborted) return;
      this.why = failure(error);
      auth.report(this.why);
    } finally {
      this.#reading = false;
      const took = performance.now() - startedAt;
      this.#next = performance.now() + Math.max(EVERY_MS, took * PART);
    }
  }
}
