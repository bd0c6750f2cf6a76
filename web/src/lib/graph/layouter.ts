// Requests layouts from the worker: one at a time, at most four a second, always of the newest tree.

import { probe } from '../probe';
import type { LayoutReply, LayoutRequest } from './layout.worker';
import type { Layout } from './tidy';

const EVERY_MS = 250;

export class Layouter {
  readonly #worker = new Worker(new URL('./layout.worker.ts', import.meta.url), { type: 'module' });
  #waiting: (() => LayoutRequest) | undefined;
  #busy = false;
  #last = -Infinity;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(done: (layout: Layout) => void) {
    this.#worker.addEventListener('message', ({ data }: MessageEvent<LayoutReply>) => {
      probe('layout', data.ys.length, data.ms);
      this.#busy = false;
      done(data);
      this.#next();
    });
  }

  /** `tree` is called when the layout starts, so many requests in a row cost one layout. */
  request(tree: () => LayoutRequest): void {
    this.#waiting = tree;
    this.#next();
  }

  #next(): void {
    if (this.#busy || this.#waiting === undefined) return;
    const wait = this.#last + EVERY_MS - performance.now();
    clearTimeout(this.#timer);
    if (wait > 0) {
      this.#timer = setTimeout(() => this.#next(), wait);
      return;
    }
    const request = this.#waiting();
    this.#waiting = undefined;
    this.#busy = true;
    this.#last = performance.now();
    this.#worker.postMessage(request, [request.parents.buffer, request.cells.buffer, request.breaks.buffer]);
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#worker.terminate();
  }
}
