// The parts of a line of Markdown: code, emphasis, links, references to footnotes. One pass from left to right.

import { MAX_NOTE_LABEL } from './markdown-notes';

export type Inline =
  | { kind: 'text'; text: string }
  | { kind: 'code'; text: string }
  | { kind: 'strong'; children: Inline[] }
  | { kind: 'em'; children: Inline[] }
  | { kind: 'link'; href: string; children: Inline[] }
  /** A reference to a footnote: the `ref`th one to it. Both count from 1. */
  | { kind: 'note'; label: string; number: number; ref: number }
  /** Words that are marked, and why. `last` is true where the marked words end. */
  | { kind: 'mark'; why: string; last: boolean; children: Inline[] };

/** Also to the documents of a run: as an overview links them, and by their ids. */
const SAFE_LINK = /^(?:https?:|mailto:)|^[^:?#\\]+\/document\.md$|^document:[\da-f-]{36}$/i;
const MAX_LABEL = 500;
const MAX_URL = 2000;
/** Deeper nesting is shown as text. This bounds the recursion. */
const MAX_DEPTH = 12;

/** Where something that is more than text may begin. */
const MARK = /[`*_[]|https?:\/\//g;
const NEWLINE = /\n/g;
const STAR = /\*/g;
const STARS = /\*\*/g;
const UNDERSCORE = /_/g;
const BRACKET = /\]/g;
const LINK_END = /[)\s]/g;
const URL_END = /[\s<>()\]]/g;

/** What was recognised at a place: where it ends, and what to show; text when `part` is absent. */
interface Found {
  end: number;
  part?: Inline;
}

export function inline(text: string, depth = 0): Inline[] {
  const marks = new Finder(text, MARK);
  const first = marks.next(0);
  if (first === Infinity || depth > MAX_DEPTH) return text === '' ? [] : [{ kind: 'text', text }];
  const scanner = new Scanner(text, depth);
  const out: Inline[] = [];
  let shown = 0;
  const textUpTo = (end: number): void => {
    if (end > shown) out.push({ kind: 'text', text: text.slice(shown, end) });
  };
  for (let at = first; at < text.length;) {
    const { end, part } = scanner.at(at);
    if (part !== undefined) {
      textUpTo(at);
      out.push(part);
      shown = end;
    }
    at = marks.next(end);
  }
  textUpTo(text.length);
  return out;
}

/** Recognises what begins at a mark. Marks are asked for in ascending order, which is what keeps it linear. */
class Scanner {
  readonly #text: string;
  readonly #depth: number;
  readonly #newline: Finder;
  readonly #star: Finder;
  readonly #stars: Finder;
  readonly #underscore: Finder;
  readonly #bracket: Finder;
  readonly #linkEnd: Finder;
  readonly #urlEnd: Finder;
  #backticks: BacktickRuns | undefined;

  constructor(text: string, depth: number) {
    this.#text = text;
    this.#depth = depth;
    this.#newline = new Finder(text, NEWLINE);
    this.#star = new Finder(text, STAR);
    this.#stars = new Finder(text, STARS);
    this.#underscore = new Finder(text, UNDERSCORE);
    this.#bracket = new Finder(text, BRACKET);
    this.#linkEnd = new Finder(text, LINK_END);
    this.#urlEnd = new Finder(text, URL_END);
  }

  at(i: number): Found {
    const text = this.#text;
    switch (text[i]) {
      case '`':
        return this.#code(i);
      case '*':
        return (text[i + 1] === '*' ? this.#strong(i) : this.#emphasis(i, this.#star)) ?? { end: i + 1 };
      case '_':
        return (text[i + 1] === '_' ? this.#strongUnderscore(i) : this.#emphasisUnderscore(i)) ?? { end: i + 1 };
      case '[':
        return this.#link(i) ?? this.#note(i) ?? { end: i + 1 };
      default:
        return this.#url(i);
    }
  }

  #children(from: number, to: number): Inline[] {
    return inline(this.#text.slice(from, to), this.#depth + 1);
  }

  /** As in CommonMark: a run of backticks is closed by the next run of the same length. */
  #code(i: number): Found {
    this.#backticks ??= new BacktickRuns(this.#text);
    const length = this.#backticks.lengthAt(i);
    const close = this.#backticks.next(length, i + length);
    if (close === Infinity) return { end: i + length };
    return { end: close + length, part: { kind: 'code', text: this.#text.slice(i + length, close).trim() } };
  }

  #strong(i: number): Found | undefined {
    const close = this.#stars.next(i + 2);
    if (this.#text[i + 2] === '*' || close >= this.#newline.next(i)) return undefined;
    return { end: close + 2, part: { kind: 'strong', children: this.#children(i + 2, close) } };
  }

  #strongUnderscore(i: number): Found | undefined {
    const close = this.#underscore.next(i + 2);
    if (close === i + 2 || this.#text[close + 1] !== '_' || close >= this.#newline.next(i)) return undefined;
    return { end: close + 2, part: { kind: 'strong', children: this.#children(i + 2, close) } };
  }

  #emphasis(i: number, mark: Finder): Found | undefined {
    const close = mark.next(i + 1);
    if (close === i + 1 || isSpace(this.#text[i + 1]) || close >= this.#newline.next(i)) return undefined;
    return { end: close + 1, part: { kind: 'em', children: this.#children(i + 1, close) } };
  }

  /** Underscores inside a word, as in `snake_case`, are text. */
  #emphasisUnderscore(i: number): Found | undefined {
    if (isWord(this.#text[i - 1])) return undefined;
    const found = this.#emphasis(i, this.#underscore);
    return found && isWord(this.#text[found.end]) ? undefined : found;
  }

  #link(i: number): Found | undefined {
    const close = this.#bracket.next(i + 1);
    if (close - i > MAX_LABEL + 1 || close >= this.#newline.next(i) || this.#text[close + 1] !== '(') return undefined;
    const from = close + 2;
    const to = this.#linkEnd.next(from);
    if (to === from || to - from > MAX_URL || this.#text[to] !== ')') return undefined;
    const href = this.#text.slice(from, to);
    // A link of another kind, which a click could run, stays as it was written.
    if (!SAFE_LINK.test(href)) return { end: to + 1 };
    return { end: to + 1, part: { kind: 'link', href, children: this.#children(i + 1, close) } };
  }

  /** Whether there is such a footnote is known when the whole text has been read. */
  #note(i: number): Found | undefined {
    const close = this.#bracket.next(i + 1);
    if (this.#text[i + 1] !== '^' || close === i + 2 || close - i > MAX_NOTE_LABEL + 2) return undefined;
    const label = this.#text.slice(i + 2, close);
    if (/[\s[]/.test(label)) return undefined;
    return { end: close + 1, part: { kind: 'note', label, number: 0, ref: 0 } };
  }

  #url(i: number): Found {
    const from = this.#text.indexOf('//', i) + 2;
    const end = Math.min(this.#urlEnd.next(from), this.#text.length);
    const href = this.#text.slice(i, end);
    return end === from ? { end } : { end, part: { kind: 'link', href, children: [{ kind: 'text', text: href }] } };
  }
}

const isSpace = (char: string | undefined): boolean => char === undefined || /\s/.test(char);
const isWord = (char: string | undefined): boolean => char !== undefined && /\w/.test(char);

/** Finds the next match, and remembers it: as long as the positions asked for ascend, each character is read once. */
class Finder {
  readonly #text: string;
  readonly #pattern: RegExp;
  #found = -1;

  /** The pattern has the flag `g` and a bounded length. */
  constructor(text: string, pattern: RegExp) {
    this.#text = text;
    this.#pattern = pattern;
  }

  /** The first match at `from` or later; Infinity when there is none. */
  next(from: number): number {
    if (this.#found < from) {
      this.#pattern.lastIndex = from;
      this.#found = this.#pattern.exec(this.#text)?.index ?? Infinity;
    }
    return this.#found;
  }
}

/** All runs of backticks of a text, by their length. */
class BacktickRuns {
  readonly #lengths = new Map<number, number>();
  readonly #starts = new Map<number, number[]>();
  /** By length: how many of the runs lie behind the last position asked for. */
  readonly #passed = new Map<number, number>();

  constructor(text: string) {
    for (const run of text.matchAll(/`+/g)) {
      const { length } = run[0];
      this.#lengths.set(run.index, length);
      const starts = this.#starts.get(length);
      if (starts) starts.push(run.index);
      else this.#starts.set(length, [run.index]);
    }
  }

  lengthAt(start: number): number {
    return this.#lengths.get(start)!;
  }

  /** The next run of this length at `from` or later; Infinity when there is none. Positions ascend. */
  next(length: number, from: number): number {
    const starts = this.#starts.get(length) ?? [];
    let passed = this.#passed.get(length) ?? 0;
    while (passed < starts.length && starts[passed]! < from) passed += 1;
    this.#passed.set(length, passed);
    return starts[passed] ?? Infinity;
  }
}
