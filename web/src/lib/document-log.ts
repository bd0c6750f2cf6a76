// What the log says about documents: when each was created and when it changed.

import type { Event } from '../gen/treeagent/v1/events_pb';
import type { History } from './projection/history';

/** The documents that an event creates or changes. */
export function documentsOf({ body }: Event): string[] {
  switch (body.case) {
    case 'scratchpadLinked':
    case 'scratchpadUpdated':
      return [body.value.scratchpadDocId];
    case 'artifactCreated':
      return body.value.documentId === undefined ? [] : [body.value.documentId];
    case 'planDocumentUpdated':
      return [body.value.documentId];
    case 'rollupUpdated':
      return [body.value.documentId, body.value.summaryDocumentId ?? ''].filter((id) => id !== '');
    default:
      return [];
  }
}

/** The events about each document, collected as the log grows: each event is looked at once. */
export class DocumentLog {
  readonly #seqs = new Map<string, number[]>();
  #scanned = 0;
  #history: History | undefined;

  /** Takes in what is known of the log. While there is a gap in it, only what is before. */
  read(history: History | undefined): void {
    if (history === undefined) return;
    if (history !== this.#history) {
      this.#history = history;
      this.#seqs.clear();
      this.#scanned = 0;
    }
    for (const event of history.from(this.#scanned)) {
      for (const id of documentsOf(event)) {
        const seqs = this.#seqs.get(id);
        if (seqs === undefined) this.#seqs.set(id, [Number(event.seq)]);
        else seqs.push(Number(event.seq));
      }
    }
    this.#scanned = history.size;
  }

  /** The event that created a document; undefined if no event says it. */
  created(id: string): number | undefined {
    return this.#seqs.get(id)?.[0];
  }

  /** The last event up to `seq` that is about a document; undefined if there is none. */
  changed(id: string, seq: number): number | undefined {
    return this.#seqs.get(id)?.findLast((at) => at <= seq);
  }
}
