// Bodies of scratchpads for the search. Events carry the end of each. A longer one is read when somebody
// searches, a few at a time, and again after it has grown.

import { documents } from './api/client';
import type { GraphNode } from './projection/model';

/** Events carry at most the last 512 bytes of a scratchpad, which are at least 128 characters. */
const MAY_BE_CUT = 128;
const AT_A_TIME = 4;

export class Scratchpads {
  readonly bodies = new Map<string, string>();
  /** Incremented with every body that was read. */
  version = $state(0);
  /** The end of each scratchpad when it was last read. */
  readonly #asked = new Map<string, string>();
  readonly #queue: string[] = [];
  #reading = 0;

  set(id: string, body: string): void {
    this.bodies.set(id, body);
    this.version += 1;
  }

  /** Reads the scratchpads of these nodes that are not known yet or have grown. */
  read(nodes: readonly GraphNode[]): void {
    for (const { scratchpadDocId: id, scratchpadTail: tail } of nodes) {
      if (id === undefined || tail === undefined || tail.length < MAY_BE_CUT || this.#asked.get(id) === tail) continue;
      this.#asked.set(id, tail);
      this.#queue.push(id);
    }
    while (this.#reading < AT_A_TIME && this.#queue.length > 0) void this.#next();
  }

  async #next(): Promise<void> {
    this.#reading += 1;
    for (let id = this.#queue.shift(); id !== undefined; id = this.#queue.shift()) {
      try {
        const { document } = await documents.getDocument({ documentId: id });
        this.set(id, document?.body ?? '');
      } catch {
        // Retried with the next change of the run or of the search.
        this.#asked.delete(id);
      }
    }
    this.#reading -= 1;
  }
}
