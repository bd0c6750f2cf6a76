// Finds words in a text although white space and typographic characters differ: claims in an answer, and quotes that
// have moved. The check of citations sees more (`crates/retrieval/src/quote.rs`). Takes time linear in both lengths.

/** A text with one space for any white space and plain quotation marks, and where its characters come from. */
export interface Folded {
  text: string;
  /** For each character of `text`, where the original one begins and ends. */
  from: Uint32Array;
  to: Uint32Array;
  /** Where characters of `text` stand that make one word or number of what is before and behind them. */
  joints: Set<number>;
  /** For each place of `text`, what is known of it: many claims ask for the same place. */
  places: Uint8Array;
}

/** No word may begin or end at a place, because it is inside another one. */
const CHECKED_WITHIN = 1;
const IS_WITHIN = 2;
/** No claim may begin at a place, because a sign stands before it. */
const CHECKED_SIGN = 4;
const IS_SIGNED = 8;

export interface Range {
  from: number;
  to: number;
}

/** As `is_invisible` in `crates/contract/src/text.rs`. */
const INVISIBLE = /[\p{Default_Ignorable_Code_Point}\u2028-\u202e\u2800\ufff0-\ufffb\u{13430}-\u{1343f}]/u;
const SPACE = /[\u0085\s]/;
const BYTE_ORDER_MARK = '\ufeff';
const SINGLE = /[\u2018-\u201b\u2032\u2035\u00b4`]/;
const DOUBLE = /[\u201c-\u201f\u2033\u2036\u00ab\u00bb]/;
const DASH = /[\u2010-\u2015\u2212]/;
/** The mark of a numbered footnote. Whoever quotes a sentence leaves out its footnotes. */
const NOTE = /\[\^\d{1,4}\]/y;
const NUMBER = /\p{N}/u;
const LETTER = /[\p{Alphabetic}\p{N}\p{M}]/u;
const HAN =
  /[\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u{20000}-\u{3ffff}]/u;
/** Other scripts that put nothing between words. */
const KANA = /[\u3031-\u3035\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f\u{1aff0}-\u{1b16f}]/u;
const THAI_LAO = /[\u0e00-\u0eff]/;
const MYANMAR_KHMER = /[\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f\u1780-\u17ff]/;
/** What joins two parts of a word or a number. */
const JOINS = /['.,]/;
/** What joins them only if it is this character, not one that looks like it: the hyphen of `non-toxic`. */
const HYPHEN = /[-\u2010\u2011]/;
/** The slash of `1/5`, and white space that keeps the digits of a number together. */
const WITHIN_NUMBER = /[/\u2044\u2215\u00a0\u2009\u202f]/;
const CURRENCY = /\p{Sc}/u;

/** Raised and lowered numbers, fractions and numbers in circles: a part of them is another number. */
const OTHER_NUMBER =
  /[\u00b2\u00b3\u00b9\u00bc-\u00be\u2070-\u209f\u2150-\u218b\u2460-\u24ff\u3200-\u33ff\u{1f100}-\u{1f1ff}]/u;
/** Markdown that only marks what it surrounds, where no word stands on both sides of it, as in `markdown` there. */
const MARK = /(?<![\p{Alphabetic}\p{N}*_`])([*_`]+|~~)(?=\S)|(?<=\S)([*_`]+|~~)(?![\p{Alphabetic}\p{N}])/uy;
const LINE = /(?<=^|[\r\n])(#{1,6}(?= )|>+)/y;
const ESCAPE = /\\(?=[!-/:-@[-`{-~])/y;
const LINK = /\[(?=[^\]]{0,1024}\]\([^)\s]{0,1024}\))|\]\([^)\s]{0,1024}\)/y;
/** White space behind a soft hyphen: the word goes on. */
const DIVIDED = /(?<=\u00ad)\s+/y;
const MARKED = new Set('[]*_`~#> \t\r\n');
const MARKS = [NOTE, LINE, LINK, MARK, DIVIDED];

function plain(char: string): string {
  if (char >= ' ' && char <= '~') return char === '`' ? "'" : char;
  // Before what is invisible: separators of lines and paragraphs divide words.
  if (char !== BYTE_ORDER_MARK && SPACE.test(char)) return ' ';
  if (INVISIBLE.test(char)) return '';
  if (SINGLE.test(char)) return "'";
  if (DOUBLE.test(char)) return '"';
  if (DASH.test(char)) return '-';
  if (char === '\u2026') return '...';
  return OTHER_NUMBER.test(char) ? char : [...char.normalize('NFKD')].map((c) => (c === char ? c : plain(c))).join('');
}

export function fold(original: string): Folded {
  const out: string[] = [];
  const from: number[] = [];
  const to: number[] = [];
  const joints = new Set<number>();
  for (let at = 0; at < original.length;) {
    const mark = MARKED.has(original[at]!)
      ? MARKS.find((one) => ((one.lastIndex = at), one.test(original)))
      : undefined;
    if (mark !== undefined) {
      at = mark.lastIndex;
      continue;
    }
    ESCAPE.lastIndex = at;
    if (ESCAPE.test(original)) at += 1;
    const char = after(original, at);
    const said = plain(char);
    if (isJoint(out, char, original, at)) joints.add(out.length);
    // A character of two units stays one; an ellipsis becomes three.
    for (let i = 0; i < said.length; i++) {
      if (said === ' ' && out.at(-1) === ' ') break;
      out.push(said[i]!);
      from.push(at);
      to.push(at + char.length);
    }
    at += char.length;
  }
  const text = out.join('');
  const places = new Uint8Array(text.length + 1);
  return { text, from: Uint32Array.from(from), to: Uint32Array.from(to), joints, places };
}

/** Whether `char`, which stands at a place behind what is folded in `out`, makes a word or number of its neighbours. */
function isJoint(out: string[], char: string, original: string, at: number): boolean {
  const isNumber = WITHIN_NUMBER.test(char);
  if (!isNumber && !HYPHEN.test(char)) return false;
  const isPart = (c: string): boolean => c !== '' && (isNumber ? NUMBER.test(c) : inWord(c));
  if (!isPart(before(out.slice(-2).join(''), 2))) return false;
  let next = at + char.length;
  while (next < original.length && plain(after(original, next)) === '') next += after(original, next).length;
  return isPart(plain(after(original, next)));
}

/** The character that begins at a place, and the one that ends there; empty at the ends of a text. */
const after = (text: string, at: number): string =>
  at < text.length ? String.fromCodePoint(text.codePointAt(at)!) : '';
function before(text: string, at: number): string {
  const pair = text.slice(Math.max(0, at - 2), at);
  return /^[\ud800-\udbff][\udc00-\udfff]$/.test(pair) ? pair : pair.slice(-1);
}

/** Characters of words that have white space around them, and numbers. */
function inWord(char: string): boolean {
  if (HAN.test(char)) return false;
  const undivided = KANA.test(char) || THAI_LAO.test(char) || MYANMAR_KHMER.test(char);
  return undivided ? NUMBER.test(char) : LETTER.test(char);
}

/** Whether a place is inside a word or a number: `can|'t`, `12.|50`. */
function isWithinWord({ text, joints }: Folded, at: number): boolean {
  if (joints.has(at) || joints.has(at - 1)) return true;
  const [last, next] = [before(text, at), after(text, at)];
  if (last === '' || next === '') return false;
  if (inWord(last)) return inWord(next) || (JOINS.test(next) && inWord(after(text, at + next.length)));
  return inWord(next) && JOINS.test(last) && inWord(before(text, at - last.length));
}

/**
 * Whether a number, or an amount of money, begins at a place and its sign, or point, stands before it. Three points are
 * an ellipsis.
 */
function isSigned(text: string, at: number): boolean {
  const [sign, first] = [text[at - 1], after(text, at)];
  const isMoney = CURRENCY.test(first);
  if (!NUMBER.test(isMoney ? after(text, at + first.length) : first)) return false;
  const mark = before(text, at);
  if (CURRENCY.test(mark)) return text[at - mark.length - 1] === '-';
  return sign === '-' || (!isMoney && sign === '.' && text[at - 2] !== '.');
}

/** Whether whole words begin or end at a place. */
function isEdge(folded: Folded, at: number): boolean {
  const { places } = folded;
  if (!(places[at]! & CHECKED_WITHIN)) places[at]! |= CHECKED_WITHIN | (isWithinWord(folded, at) ? IS_WITHIN : 0);
  return !(places[at]! & IS_WITHIN);
}

/** The same for a beginning, where no sign stands before it. */
function isBeginning(folded: Folded, at: number): boolean {
  const { places, text } = folded;
  if (!(places[at]! & CHECKED_SIGN)) places[at]! |= CHECKED_SIGN | (isSigned(text, at) ? IS_SIGNED : 0);
  return !(places[at]! & IS_SIGNED) && isEdge(folded, at);
}

/**
 * The places of some words in a folded text, at most `most`, in ranges of the original. They are whole words. Places
 * that overlap are one range.
 */
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
    if (isBeginning(within, begin) && isEdge(within, at + 1)) {
      const [from, to, last] = [within.from[begin]!, within.to[at]!, found.at(-1)];
      if (last !== undefined && from < last.to) last.to = to;
      else found.push({ from, to });
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
