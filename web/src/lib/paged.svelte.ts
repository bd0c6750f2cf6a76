// A list that a server gives page by page. What has been read stays when the next page cannot be read.

import type { Failure } from './api/client';
import { auth } from './auth.svelte';

export interface Page<Item> {
  items: Item[];
  /** Empty on the last page. */
  next: string;
}

export type ReadPage<Item> = (token: string, signal: AbortSignal) => Promise<Page<Item>>;

export class Paged<Item> {
  /** Undefined until the first page is there. */
  items = $state.raw<readonly Item[] | undefined>();
  /** All pages have been read. */
  complete = $state(false);
  reading = $state(false);
  why = $state.raw<Failure | undefined>();
  #next = '';
  #read: ReadPage<Item> | undefined;
  #closed = new AbortController();

  /** Begins anew. What is shown stays until the first page arrives. Returns what ends it. */
  start(read: ReadPage<Item>, all = false): () => void {
    this.#closed.abort();
    const closed = (this.#closed = new AbortController());
    this.#read = read;
    this.#next = '';
    this.complete = false;
    void this.#page(closed, true).then((ok) => (ok && all ? this.rest() : undefined));
    return () => closed.abort();
  }

  /** Reads the next page; after a failure, the same one again. */
  async more(): Promise<boolean> {
    return this.complete || this.reading ? false : this.#page(this.#closed, this.#next === '');
  }

  /** Reads page after page until the last one. */
  async rest(): Promise<void> {
    while (await this.more());
  }

  /** Changes what has been read. */
  set(items: readonly Item[]): void {
    this.items = items;
  }

  async #page(closed: AbortController, first: boolean): Promise<boolean> {
    const read = this.#read;
    if (read === undefined) return false;
    this.reading = true;
    try {
      const { items, next } = await read(this.#next, closed.signal);
      if (closed.signal.aborted) return false;
      this.items = first ? items : [...(this.items ?? []), ...items];
      this.#next = next;
      this.complete = next === '';
      this.why = undefined;
      return true;
    } catch (error) {
      if (closed.signal.aborted) return false;
      this.why = auth.caught(error);
      return false;
    } finally {
      if (closed === this.#closed) this.reading = false;
    }
  }
}
