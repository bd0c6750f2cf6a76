// The trees of a text, which a worker reads slice by slice.

import type { Root } from 'mdast';
import { Notes, type Note } from './notes';
import { slices, type Slice } from './slices';

/** The parser may take so long for one slice: fifty times what it needs on a machine with nothing else to do. */
const DEADLINE_MS = 3000;

export interface Part extends Slice {
  /** Absent if the parser did not finish. Then the text is shown as it is. */
  tree?: Root;
}

let worker: Promise<Worker> | undefined;
let last: Promise<unknown> = Promise.resolve();

function start(): Promise<Worker> {
  return new Promise((resolve, reject) => {
    const begun = new Worker(new URL('./markdown.worker.ts', import.meta.url), { type: 'module' });
    begun.addEventListener('message', () => resolve(begun), { once: true });
    begun.addEventListener('error', () => reject(new Error('the worker did not start')), { once: true });
  });
}

async function parse(slice: Slice): Promise<Root | undefined> {
  const own = (worker ??= start());
  let timer: ReturnType<typeof setTimeout> | undefined;
  try {
    const begun = await own;
    return await new Promise((resolve) => {
      begun.onmessage = ({ data }: MessageEvent<{ tree?: Root }>) => resolve(data.tree);
      timer = setTimeout(() => {
        worker = undefined;
        begun.terminate();
        resolve(undefined);
      }, DEADLINE_MS);
      begun.postMessage({ ...slice });
    });
  } catch {
    worker = undefined;
    return undefined;
  } finally {
    clearTimeout(timer);
  }
}

export class Reading {
  /** What has been read. Of an earlier text, what has not been read again yet. */
  parts = $state.raw<readonly Part[]>([]);
  /** The footnotes of the whole, when it has been read. */
  notes = $state.raw<readonly Note[]>([]);
  #current = 0;

  /** Reads no further. */
  stop(): void {
    this.#current += 1;
  }

  /** Reads a text instead of the one before; true if it has read the whole. */
  async read(text: string): Promise<boolean> {
    const current = ++this.#current;
    const notes = new Notes();
    const wanted = slices(text);
    let isPlain = false;
    for (const [i, slice] of wanted.entries()) {
      // One at a time: what takes long is known.
      const reply = last.then(() => (isPlain || current !== this.#current ? undefined : parse(slice)));
      last = reply;
      const tree = await reply;
      if (current !== this.#current) return false;
      // What follows a text that is made to be slow is shown as it is, too.
      isPlain ||= tree === undefined;
      if (tree !== undefined) notes.take(tree);
      this.parts = [...this.parts.slice(0, i), { ...slice, ...(tree && { tree }) }, ...this.parts.slice(i + 1)];
    }
    this.parts = this.parts.slice(0, wanted.length);
    this.notes = notes.finish();
    return true;
  }
}
