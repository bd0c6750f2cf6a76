// Titles in little room: over some lines, cut in the middle, without the words that all siblings share if need be.

import type { Projection } from '../projection/projection';

/** A part of a line. The words that siblings share are dimmed. */
export interface Run {
  text: string;
  dim: boolean;
}
export type Line = Run[];

/** How many words at the beginning and at the end of a title all siblings share. */
export interface Shared {
  before: number;
  after: number;
}

const NONE: Shared = { before: 0, after: 0 };
/** Families larger than this have too many titles to compare. */
const MOST_SIBLINGS = 64;
/** More of a title is never drawn. */
const MOST_CHARACTERS = 240;

const segmenter = new Intl.Segmenter();

/** The beginning of a long title, which does not end within a character. */
function beginning(title: string): string {
  if (title.length <= MOST_CHARACTERS) return title;
  const letters = [...segmenter.segment(title.slice(0, MOST_CHARACTERS))];
  return title.slice(0, letters.at(-1)!.index);
}

/** Without the marks of code in Markdown, which tell nothing here. */
const wordsOf = (title: string): string[] => beginning(title).replaceAll('`', '').trim().split(/\s+/u);

const known = new WeakMap<readonly number[], Shared & { of: number }>();

/** What the siblings of a node share. At least one word of each title is its own. */
export function sharedOf({ nodes, shape }: Projection, at: number): Shared {
  const family = shape.children[shape.parents[at]!];
  if (family === undefined) return NONE;
  const there = family.filter((child) => child < nodes.length);
  if (there.length < 2 || there.length > MOST_SIBLINGS) return NONE;
  const found = known.get(family);
  if (found?.of === there.length) return found;
  const titles = there.map((child) => wordsOf(nodes[child]!.title));
  const first = titles[0]!;
  const least = Math.min(...titles.map((words) => words.length)) - 1;
  let before = 0;
  while (before < least && titles.every((words) => words[before] === first[before])) before += 1;
  let after = 0;
  while (before + after < least && titles.every((words) => words.at(-1 - after) === first.at(-1 - after))) after += 1;
  const shared = { before, after, of: there.length };
  known.set(family, shared);
  return shared;
}

/** A word in parts that fit. A character is never divided. */
function pieces(word: string, fits: (text: string) => boolean): string[] {
  if (fits(word)) return [word];
  const parts: string[] = [];
  let part = '';
  for (const { segment } of segmenter.segment(word)) {
    if (part !== '' && !fits(part + segment)) {
      parts.push(part);
      part = '';
    }
    part += segment;
  }
  parts.push(part);
  return parts;
}

const CUT: Run = { text: '…', dim: true };

/** Words in lines, as many as there are; undefined if they need more than `most`. */
function wrap(words: readonly Run[], fits: (text: string) => boolean, most: number): Line[] | undefined {
  const lines: Line[] = [];
  let text = '';
  let line: Line = [];
  for (const { text: word, dim } of words) {
    for (const [i, piece] of pieces(word, fits).entries()) {
      const space = text === '' || i > 0 ? '' : ' ';
      if (text !== '' && !fits(text + space + piece)) {
        lines.push(line);
        if (lines.length >= most) return undefined;
        [line, text] = [[], ''];
      }
      const part = (text === '' ? '' : space) + piece;
      text += part;
      const last = line.at(-1);
      if (last !== undefined && last.dim === dim) last.text += part;
      else line.push({ text: part, dim });
    }
  }
  lines.push(line);
  return lines;
}

/** A title in at most so many lines that `fits` accepts. What is too much is left out of its middle. */
export function titleLines(title: string, shared: Shared, most: number, fits: (text: string) => boolean): Line[] {
  const all = wordsOf(title);
  const own = all.length - shared.after;
  const words: Run[] = all.map((text, i) => ({ text, dim: i < shared.before || i >= own }));
  const whole = wrap(words, fits, most);
  if (whole !== undefined) return whole;
  // What siblings share is given up first, then what is distinct, each from behind its middle outwards.
  const order = [true, false].flatMap((dim) => {
    const group = words.flatMap((word, i) => (word.dim === dim ? [i] : []));
    const rank = new Map(group.map((i, at) => [i, kept(at / Math.max(1, group.length - 1))]));
    return group.sort((a, b) => rank.get(a)! - rank.get(b)!);
  });
  // As many as there is room for, the most telling ones first.
  const gone = new Set(order);
  let found: Line[] | undefined;
  for (const i of order.toReversed()) {
    gone.delete(i);
    const lines = wrap(withGaps(words, gone), fits, most);
    if (lines === undefined) gone.add(i);
    else found = lines;
  }
  if (found !== undefined) return found;
  // Not even one word fits: as much of the first one of its own as does.
  const first = words.find((word) => !word.dim) ?? CUT;
  const letters = [...segmenter.segment(first.text)].map(({ segment }) => segment);
  while (letters.length > 0 && !fits(`${letters.join('')}…`)) letters.pop();
  return [[{ text: `${letters.join('')}…`, dim: false }]];
}

/** How long a word is kept, by its place from 0 to 1. */
const kept = (place: number): number => (place < 0.6 ? (0.6 - place) / 0.6 : (place - 0.6) / 0.45);

/** The words that are left, with a mark where some are missing. */
function withGaps(words: readonly Run[], gone: ReadonlySet<number>): Run[] {
  return words.flatMap((word, i) => (!gone.has(i) ? [word] : gone.has(i - 1) ? [] : [CUT]));
}
