// A text of Markdown as the page reads it, but without a worker.

import type { Root } from 'mdast';
import { Notes, type Note } from '../src/lib/markdown/notes';
import { parse } from '../src/lib/markdown/parse';
import { slices } from '../src/lib/markdown/slices';

export function read(text: string): Root & { notes: Note[] } {
  const notes = new Notes();
  const children = slices(text).flatMap((slice) => {
    const tree = parse(slice);
    notes.take(tree);
    return tree.children;
  });
  return { type: 'root', children, notes: notes.finish() };
}
