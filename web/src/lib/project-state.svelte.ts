// What a page of one project shows: its documents, those that match a search, and the one that is open.

import { Scope } from '../gen/treeagent/v1/common_pb';
import type { DocumentSummary, SearchHit } from '../gen/treeagent/v1/document_service_pb';
import type { Project } from '../gen/treeagent/v1/project_service_pb';
import { documents, type Failure } from './api/client';
import { auth } from './auth.svelte';
import { foldersAbove, FolderTree } from './folder-tree';
import { Paged } from './paged.svelte';
import { getProject } from './run-context';

/** The server gives at most this many documents at once. */
const PAGE = 1000;
const HITS = 50;
/** The folders of a small project are open. */
const FEW = 60;

export interface Found {
  query: string;
  hits: readonly SearchHit[];
  total: number;
  /** Passages that cannot be found by meaning yet. */
  lacking: number;
}

export class ProjectState {
  readonly projectId: string;
  project = $state.raw<Project | undefined>();
  /** Why the project cannot be shown. */
  why = $state.raw<Failure | undefined>();
  readonly list = new Paged<DocumentSummary>();
  /** The last search that was answered. */
  found = $state.raw<Found | undefined>();
  searchFailure = $state.raw<Failure | undefined>();
  /** The document of a path that is not in the list yet; null if the project has none. */
  #asked = $state.raw<{ path: string; document: DocumentSummary | null } | undefined>();
  /** Folders that somebody opened or closed. */
  #folds = $state.raw<ReadonlyMap<string, boolean>>(new Map());

  constructor(projectId: string) {
    this.projectId = projectId;
  }

  readonly tree = $derived(new FolderTree(this.list.items ?? []));
  readonly #byPath = $derived(new Map((this.list.items ?? []).map((document) => [document.path, document])));
  readonly rows = $derived(this.tree.rows((path) => this.#folds.get(path) ?? this.tree.size <= FEW));

  /** Reads the project and all of its documents. Returns what ends it. */
  start(): () => void {
    const abort = new AbortController();
    void this.#readProject(abort.signal);
    const request = { projectIds: [this.projectId], pageSize: PAGE };
    const end = this.list.start(async (pageToken, signal) => {
      const page = await documents.listDocuments({ ...request, pageToken }, { signal });
      return { items: page.documents, next: page.nextPageToken };
    }, true);
    return () => {
      abort.abort();
      end();
    };
  }

  async #readProject(signal: AbortSignal): Promise<void> {
    try {
      this.project = await getProject(this.projectId, signal);
      this.why = undefined;
    } catch (error) {
      if (signal.aborted) return;
      this.why = auth.caught(error);
    }
  }

  toggle(path: string, open: boolean): void {
    this.#folds = new Map(this.#folds).set(path, open);
  }

  /** Opens the folders above a document. */
  reveal(path: string): void {
    const folds = new Map(this.#folds);
    for (const folder of foldersAbove(path)) folds.set(folder, true);
    this.#folds = folds;
  }

  /** The document at a path: null if there is none, undefined while that is unknown. */
  at(path: string): DocumentSummary | null | undefined {
    return (
      this.#byPath.get(path) ??
      (this.#asked?.path === path ? this.#asked.document : this.list.complete ? null : undefined)
    );
  }

  /** Looks for the document at a path, which a link can name before the list has it. Returns what ends it. */
  ask(path: string): () => void {
    const abort = new AbortController();
    // Documents come by path, so that the one with exactly this path is the first.
    const request = { projectIds: [this.projectId], pathPrefix: path, pageSize: 1 };
    documents.listDocuments(request, { signal: abort.signal }).then(
      ({ documents: [first] }) => (this.#asked = { path, document: first?.path === path ? first : null }),
      // The list will tell.
      () => {},
    );
    return () => abort.abort();
  }

  /** Searches the documents. Returns what ends it. */
  search(query: string): () => void {
    const abort = new AbortController();
    const context = { scope: Scope.PROJECT, projectIds: [this.projectId] };
    documents.searchDocuments({ query, context, limit: HITS }, { signal: abort.signal }).then(
      ({ hits, totalSize, passages, embedded }) => {
        const lacking = embedded === undefined ? 0 : Number(passages - embedded);
        this.found = { query, hits, total: Number(totalSize), lacking };
        this.searchFailure = undefined;
      },
      (error: unknown) => {
        if (!abort.signal.aborted) this.searchFailure = auth.caught(error);
      },
    );
    return () => abort.abort();
  }

  /** Forgets a document that was deleted. */
  remove(documentId: string): void {
    const others = <T>(list: readonly T[], id: (item: T) => string | undefined): T[] =>
      list.filter((item) => id(item) !== documentId);
    this.list.set(others(this.list.items ?? [], (document) => document.documentId));
    if (this.found) {
      const hits = others(this.found.hits, (hit) => hit.document?.documentId);
      this.found = { ...this.found, total: this.found.total - (this.found.hits.length - hits.length), hits };
    }
    if (this.#asked?.document?.documentId === documentId) this.#asked = { ...this.#asked, document: null };
  }
}
