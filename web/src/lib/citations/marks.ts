// Marks claims in a tree of Markdown. A claim is compared with what is read: its own marks of Markdown do not count.

import { cells, type Block, type Inline } from '../markdown';
import { inline } from '../markdown-inline';
import { eachInline } from '../markdown-notes';
import { findAll, fold, type Range } from './fold';

export interface Doubt {
  claim: string;
  /** What is wrong with it. */
  why: string;
}

interface Marked extends Range {
  why: string;
}

/** Stands between paragraphs and between cells, so no sentence reaches from one into the next. */
const BETWEEN = '\u0000';

/** What is read of some parts. */
export function visible(list: readonly Inline[]): string {
  return list.map((part) => ('text' in part ? part.text : 'children' in part ? visible(part.children) : '')).join('');
}

/** The tree with marks, and how many of the claims have one. */
export function markClaims(tree: Block[], doubts: readonly Doubt[]): { tree: Block[]; located: number } {
  const texts: string[] = [];
  eachInline(tree, (list) => texts.push(visible(list)));
  const folded = fold(texts.join(BETWEEN));
  const whys = new Map<string, string>();
  for (const { claim, why } of doubts) {
    const words = claim.replaceAll(BETWEEN, ' ').trim();
    const before = whys.get(words);
    whys.set(words, before === undefined || before === why ? why : `${before}; ${why}`);
  }
  let located = 0;
  const found: Marked[] = [];
  for (const [claim, why] of whys) {
    const read = /^\|.*\|$/.test(claim) ? [row(claim)] : [visible(inline(claim)), bare(claim)];
    const ranges = read.map((words) => findAll(folded, words)).find((all) => all.length > 0);
    if (ranges === undefined) continue;
    located += 1;
    for (const range of ranges) found.push({ ...range, why });
  }
  if (found.length === 0) return { tree, located };
  const marker = new Marker(apart(found));
  return { tree: tree.map((block) => marker.block(block)), located };
}

/** A row of a table is one claim. */
function row(claim: string): string {
  const words = cells(claim).map(visible);
  return words.every((cell) => cell === '') ? '' : words.join(BETWEEN);
}

/** A sentence may begin within emphasis and end behind it: then its marks are no pairs. */
const bare = (claim: string): string => visible(inline(claim.replaceAll(/[*`]|__/g, '')));

/** In order, and without the parts that an earlier one covers. */
function apart(found: Marked[]): Marked[] {
  const out: Marked[] = [];
  let end = 0;
  for (const one of found.sort((a, b) => a.from - b.from || b.to - a.to)) {
    if (one.to <= end) continue;
    out.push({ ...one, from: Math.max(one.from, end) });
    end = one.to;
  }
  return out;
}

/** Copies a tree with marks. It meets the texts in the same order as `eachInline`. */
class Marker {
  readonly #marks: Marked[];
  /** The first mark that does not end before the text that is copied. */
  #next = 0;
  #at = 0;

  constructor(marks: Marked[]) {
    this.#marks = marks;
  }

  block(block: Block): Block {
    switch (block.kind) {
      case 'heading':
      case 'paragraph':
        return { ...block, children: this.#text(block.children) };
      case 'quote':
        return { ...block, blocks: block.blocks.map((b) => this.block(b)) };
      case 'list':
        return { ...block, items: block.items.map((item) => item.map((b) => this.block(b))) };
      case 'table':
        return {
          ...block,
          head: block.head.map((cell) => this.#text(cell)),
          rows: block.rows.map((row) => row.map((cell) => this.#text(cell))),
        };
      case 'notes':
        return {
          ...block,
          notes: block.notes.map((note) => ({ ...note, blocks: note.blocks.map((b) => this.block(b)) })),
        };
      default:
        return block;
    }
  }

  #text(list: Inline[]): Inline[] {
    const out = this.#parts(list);
    this.#at += BETWEEN.length;
    return out;
  }

  #parts(list: Inline[]): Inline[] {
    return list.flatMap((part): Inline[] => {
      if ('text' in part) return this.#split(part);
      return 'children' in part ? [{ ...part, children: this.#parts(part.children) }] : [part];
    });
  }

  #split(part: Extract<Inline, { text: string }>): Inline[] {
    const begin = this.#at;
    const end = (this.#at += part.text.length);
    const out: Inline[] = [];
    const piece = (from: number, to: number): Inline[] =>
      to > from ? [{ ...part, text: part.text.slice(from - begin, to - begin) }] : [];
    let shown = begin;
    for (; this.#next < this.#marks.length; this.#next++) {
      const { from, to, why } = this.#marks[this.#next]!;
      if (from >= end) break;
      out.push(...piece(shown, from));
      shown = Math.min(to, end);
      out.push({ kind: 'mark', why, last: to <= end, children: piece(Math.max(from, begin), shown) });
      if (to > end) break;
    }
    out.push(...piece(shown, end));
    return out;
  }
}
