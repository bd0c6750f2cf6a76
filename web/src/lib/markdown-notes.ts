// Footnotes: `[^label]` in a text, and `[^label]: what it says` on a line of its own.
//
// References and definitions may come in any order, so they meet after the text has been read: each part of the tree is
// visited once. Footnotes are numbered in the order of their first reference. Nothing is dropped: a reference without a
// definition is text, and a footnote without a reference comes last.

import type { Block } from './markdown';
import type { Inline } from './markdown-inline';

/** Longer labels are text. */
export const MAX_NOTE_LABEL = 100;

export interface Note {
  number: number;
  /** How many references lead to it. */
  refs: number;
  /** The document that it begins with. */
  document?: string;
  /** The words of that document. */
  quote?: string;
  blocks: Block[];
}

/** A definition as it was written. */
export interface Definition {
  label: string;
  lines: string[];
}

const DEFINITION = /^ {0,3}\[\^([^\s[\]]{1,100})\]:[ \t]?/;
/** A document's id at the beginning, in code or brackets or without, and what separates it from its words. */
const SOURCE =
  /^[<`]?([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})[>`]?(?![\w-])[\s:,\u2013\u2014-]*/i;
/** What a line of a footnote may be indented by. */
const INDENT = /^(?: {2,4}|\t)/;
const QUOTATION = /["\u201c-\u201f\u00ab\u00bb]/;
/** What the role service adds at the end of a footnote whose citations do not hold. */
const REMARK = /\(unverified: [^()"\u201c-\u201f\u00ab\u00bb]*\)\s*$/;

export const noteKey = (label: string): string => label.toLowerCase();

/** The definition that begins at a line, and the line after it. `begins` tells whether a line begins another block. */
export function definition(
  lines: string[],
  at: number,
  begins: (line: string) => boolean,
): { found: Definition; next: number } | undefined {
  const begin = DEFINITION.exec(lines[at]!);
  if (begin === null) return undefined;
  const found = { label: begin[1]!, lines: [lines[at]!.slice(begin[0].length)] };
  let next = at + 1;
  for (; next < lines.length; next++) {
    const line = lines[next]!;
    if (line.trim() === '') {
      // A blank line belongs to it if it goes on after it.
      if (!INDENT.test(lines[next + 1] ?? '') || lines[next + 1]!.trim() === '') break;
      found.lines.push('');
    } else if (INDENT.test(line)) found.lines.push(line.replace(INDENT, ''));
    // As in a paragraph, a line that follows at once belongs to it.
    else if (lines[next - 1]!.trim() !== '' && !DEFINITION.test(line) && !begins(line)) found.lines.push(line);
    else break;
  }
  return { found, next };
}

/** The words within quotation marks; all words if there are none. */
function quoted(text: string): string {
  const said = text.replace(REMARK, '');
  let from = said.search(QUOTATION);
  if (from < 0) return said.trim();
  let to = said.length - 1;
  while (to > from && !QUOTATION.test(said[to]!)) to -= 1;
  if (to === from) to = said.length;
  while (from < to && QUOTATION.test(said[from]!)) from += 1;
  return said.slice(from, to).trim();
}

function noteOf({ lines }: Definition, read: (lines: string[]) => Block[]): Note {
  const [first, ...more] = lines as [string, ...string[]];
  const source = SOURCE.exec(first.trimStart());
  if (source === null) return { number: 0, refs: 0, blocks: read(lines) };
  const said = [first.trimStart().slice(source[0].length), ...more];
  const quote = quoted(said.join('\n'));
  return {
    number: 0,
    refs: 0,
    document: source[1]!.toLowerCase(),
    ...(quote === '' ? {} : { quote }),
    blocks: read(said),
  };
}

/** Numbers the references of a tree, and returns the footnotes in their order. */
export function resolveNotes(blocks: Block[], definitions: Definition[], read: (lines: string[]) => Block[]): Note[] {
  const all = definitions.map((one) => noteOf(one, read));
  const known = new Map<string, Note>();
  definitions.forEach(({ label }, i) => known.has(noteKey(label)) || known.set(noteKey(label), all[i]!));
  const ordered: Note[] = [];
  const number = (note: Note): void => {
    if (note.number > 0) return;
    ordered.push(note);
    note.number = ordered.length;
  };
  const refer = (list: Inline[]): void => {
    list.forEach((part, i) => {
      if (part.kind === 'note') {
        const note = known.get(noteKey(part.label));
        if (note === undefined) {
          list[i] = { kind: 'text', text: `[^${part.label}]` };
          return;
        }
        number(note);
        note.refs += 1;
        part.number = note.number;
        part.ref = note.refs;
      } else if ('children' in part) refer(part.children);
    });
  };
  eachInline(blocks, refer);
  let visited = 0;
  const visit = (): void => {
    for (; visited < ordered.length; visited++) eachInline(ordered[visited]!.blocks, refer);
  };
  visit();
  for (const note of all) {
    number(note);
    visit();
  }
  return ordered;
}

/** Calls `take` with each list of inline parts, in the order of the text. */
export function eachInline(blocks: Block[], take: (list: Inline[]) => void): void {
  for (const block of blocks) {
    switch (block.kind) {
      case 'heading':
      case 'paragraph':
        take(block.children);
        break;
      case 'quote':
        eachInline(block.blocks, take);
        break;
      case 'list':
        block.items.forEach((item) => eachInline(item, take));
        break;
      case 'table':
        [block.head, ...block.rows].forEach((row) => row.forEach(take));
        break;
      case 'notes':
        block.notes.forEach((note) => eachInline(note.blocks, take));
        break;
      default:
    }
  }
}
