// Finds words in a text although white space and typographic characters differ, as the check of citations does
// (`crates/contract/src/citation/quote.rs`). Every search takes time linear in both lengths.

/** A text with one space for any white space and plain quotation marks, and where its characters come from. */
export interface Folded {
  text: string;
  /** For each character of `text`, where the original one begins and ends. */
  from: Uint32Array;
  to: Uint32Array;
}

export interface Range {
  from: number;
  to: number;
}

const INVISIBLE = /[\u00ad\u200b-\u200d\u2060\ufeff]/;
const SPACE = /\s/;
const SINGLE = /[\u2018-\u201b\u2032\u2035\u00b4`]/;
const DOUBLE = /[\u201c-\u201f\u2033\u2036\u00ab\u00bb]/;
const DASH = /[\u2010-\u2015\u2212]/;
/** The mark of a numbered footnote. Whoever quotes a sentence leaves out its footnotes. */
const NOTE = /\[\^\d{1,4}\]/y;
/** Characters of words that have white space around them. Other scripts do not divide words. */
const WORD = /[\p{Ll}\p{Lu}\p{N}]/u;

function plain(char: string): string {
  if (char >= ' ' && char <= '~') return char === '`' ? "'" : char;
  if (INVISIBLE.test(char)) return '';
  if (SPACE.test(char)) return ' ';
  if (SINGLE.test(char)) return "'";
  if (DOUBLE.test(char)) return '"';
  if (DASH.test(char)) return '-';
  return char === '\u2026' ? '...' : char;
}

export function fold(original: string): Folded {
  const out: string[] = [];
  const from: number[] = [];
  const to: number[] = [];
  for (let at = 0; at < original.length; at++) {
    NOTE.lastIndex = at;
    if (original[at] === '[' && NOTE.test(original)) {
      at = NOTE.lastIndex - 1;
      continue;
    }
    for (const char of plain(original[at]!)) {
      if (char === ' ' && out.at(-1) === ' ') continue;
      out.push(char);
      from.push(at);
      to.push(at + 1);
    }
  }
  return { text: out.join(''), from: Uint32Array.from(from), to: Uint32Array.from(to) };
}

/** Whether two characters belong to one word. Halves of a character outside the basic plane are no letters here. */
const joined = (a: string | undefined, b: string | undefined): boolean =>
  a !== undefined && b !== undefined && WORD.test(a) && WORD.test(b);

/** The places of some words in a folded text, at most `most`, in ranges of the original. They are whole words. */
export function findAll(within: Folded, words: string, most = Infinity): Range[] {
  const needle = fold(words).text.trim();
  const { text } = within;
  const found: Range[] = [];
  if (needle === '' || needle.length > text.length) return found;
  const back = fallbacks(needle);
  for (let at = 0, matched = 0; at < text.length && found.length < most; at++) {
    while (matched > 0 && text[at] !== needle[matched]) matched = back[matched - 1]!;
    if (text[at] === needle[matched]) matched += 1;
    if (matched < needle.length) continue;
    const begin = at + 1 - needle.length;
    if (!joined(text[begin - 1], needle[0]) && !joined(needle.at(-1), text[at + 1])) {
      found.push({ from: within.from[begin]!, to: within.to[at]! });
    }
    matched = back[matched - 1]!;
  }
  return found;
}

/** For each length of a beginning of `needle`, less one: how much of it is a beginning again where it ends. */
function fallbacks(needle: string): Uint32Array {
  const back = new Uint32Array(needle.length);
  for (let at = 1, matched = 0; at < needle.length; at++) {
    while (matched > 0 && needle[at] !== needle[matched]) matched = back[matched - 1]!;
    if (needle[at] === needle[matched]) matched += 1;
    back[at] = matched;
  }
  return back;
}
