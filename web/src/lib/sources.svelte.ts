// The documents that footnotes name: their titles, and how a page opens them.

import { getContext, setContext } from 'svelte';
import { SvelteMap } from 'svelte/reactivity';
import type { Document, DocumentSummary } from '../gen/treeagent/v1/document_service_pb';
import { documents, failure } from './api/client';
import { projectUrl } from './project-list';

/** How a page opens a document, at the words that a footnote quotes. */
export interface Opener {
  /** Empty: a project's documents have no run. */
  runId: string;
  /** Empty if it is not known where the document is. */
  href(id: string, quote: string | undefined): string;
  open(id: string, quote: string | undefined): void;
}

const KEY = Symbol('sources');
/** Only this many titles are read for one page, because a title comes with its text. */
const MOST = 200;
/** So many documents are kept. */
const KEPT = 32;

export class Sources {
  readonly opener: Opener;
  /** The title of each document that is known; undefined if there is no such document. */
  readonly #titles = new SvelteMap<string, string | undefined>();
  /** Where the documents are that have been read. */
  readonly #addresses = new SvelteMap<string, string>();
  /** Their paths; empty for those that have none. */
  readonly #paths = new SvelteMap<string, string>();
  readonly #asked = new Set<string>();
  readonly #kept = new Map<string, Promise<Document | undefined>>();
  #last: Promise<void> = Promise.resolve();

  constructor(opener: Opener) {
    this.opener = opener;
  }

  /** Empty until it is known; undefined if there is no such document. */
  title(id: string): string | undefined {
    return this.#titles.has(id) ? this.#titles.get(id) : '';
  }

  /** The address of a document whose title has been read. */
  address(id: string): string | undefined {
    return this.#addresses.get(id);
  }

  /** The file of a document that has been read, else its title. */
  file(id: string): string {
    return this.#paths.get(id) || this.title(id) || '';
  }

  /** Learns titles that something else has read. */
  learn(id: string, title: string): void {
    if (title !== '') this.#titles.set(id, title);
  }

  /** A document as it is now; undefined if there is none. */
  read(documentId: string): Promise<Document | undefined> {
    let found = this.#kept.get(documentId);
    if (found === undefined) {
      found = documents.getDocument({ documentId, runId: this.opener.runId }).then(({ document }) => {
        const address = document?.summary && addressOf(document.summary);
        if (address !== undefined) this.#addresses.set(documentId, address);
        this.#titles.set(documentId, document?.summary?.title || documentId);
        this.#paths.set(documentId, document?.summary?.path ?? '');
        return document;
      });
      this.#kept.set(documentId, found);
      found.catch(() => this.#kept.delete(documentId));
      if (this.#kept.size > KEPT) this.#kept.delete(this.#kept.keys().next().value!);
    }
    return found;
  }

  /** Reads a title that is not known, one after the other; with `path`, the path of a document whose title is known. */
  ask(id: string, path = false): void {
    if ((path ? this.#paths : this.#titles).has(id) || this.#asked.has(id) || this.#asked.size >= MOST) return;
    this.#asked.add(id);
    this.#last = this.#last.then(() => this.#ask(id));
  }

  async #ask(documentId: string): Promise<void> {
    try {
      await this.read(documentId);
    } catch (error) {
      if (failure(error).kind === 'missing') this.#titles.set(documentId, undefined);
      // Otherwise its id stands there, and opening it says why it cannot be read.
      else this.#asked.delete(documentId);
    }
  }
}

function addressOf({ documentId, projectId, path, runId }: DocumentSummary): string | undefined {
  if (projectId !== undefined) return projectUrl(projectId, path);
  return runId === undefined
    ? undefined
    : `/runs/${encodeURIComponent(runId)}?${new URLSearchParams({ side: 'document', source: documentId }).toString()}`;
}

export const provideSources = (sources: Sources): Sources => setContext(KEY, sources);
export const useSources = (): Sources | undefined => getContext<Sources | undefined>(KEY);
