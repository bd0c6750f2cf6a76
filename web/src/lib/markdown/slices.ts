// Cuts a long text where blocks of Markdown end. The parser takes more than linear time, so it gets one slice at a
// time, and the first one is shown before the others are read. What a slice refers to elsewhere goes before it.

export interface Slice {
  /** Where it begins in the text. */
  from: number;
  text: string;
  /** Read before it and not shown: the definitions that it uses, and the code block that it goes on. */
  before: string;
}

/** A slice ends at the next block after so many characters. */
const TARGET = 16_000;
/** Where no block ends, it ends here. */
const MOST = 32_000;
const MOST_DEFINITIONS = 200;
const FENCE = /^ {0,3}(`{3,}|~{3,})/;
/** A line that goes on nothing: no list, quotation or footnote. */
const BLOCK = /^(?![\s>]|[-*+][ \t]|\d{1,9}[.)][ \t])/;
const DEFINITION = /^ {0,3}\[(\^?[^[\]]{1,100})\]:[ \t]*(\S{0,2000})/;
const LABEL = /\[(\^?[^[\]]{1,100})\]/g;

export function slices(text: string): Slice[] {
  const found: Slice[] = [];
  const definitions = new Map<string, string>();
  let from = 0;
  let fence = '';
  /** The code block that was open where the slice begins. */
  let opened = '';
  let blank = true;
  const cut = (at: number): void => {
    if (at > from) found.push({ from, text: text.slice(from, at), before: opened });
    from = at;
    opened = fence === '' ? '' : `${fence}\n`;
  };
  for (let at = 0; at < text.length;) {
    const newline = text.indexOf('\n', at);
    const end = newline < 0 ? text.length : newline + 1;
    const line = text.slice(at, Math.min(end, at + 2200));
    if (at - from >= TARGET && fence === '' && blank && BLOCK.test(line)) cut(at);
    else if (end - from > MOST && at > from) cut(at);
    while (end - from > MOST) cut(from + MOST - (/[\ud800-\udbff]/.test(text[from + MOST - 1]!) ? 1 : 0));
    const marks = FENCE.exec(line)?.[1];
    if (fence === '') {
      if (marks !== undefined) fence = marks;
      else {
        const [, label, url] = DEFINITION.exec(line) ?? [];
        if (label !== undefined && !definitions.has(label.toLowerCase()))
          definitions.set(label.toLowerCase(), `[${label}]: ${label.startsWith('^') ? 'x' : url}\n\n`);
      }
    } else if (marks?.startsWith(fence) === true) fence = '';
    blank = line.trim() === '';
    at = end;
  }
  cut(text.length);
  if (found.length > 1) for (const slice of found) slice.before = used(slice.text, definitions) + slice.before;
  return found;
}

/** The definitions that a slice may use. The line ends the last one. */
function used(text: string, definitions: ReadonlyMap<string, string>): string {
  const labels = new Set<string>();
  for (const [, label] of text.matchAll(LABEL)) {
    if (labels.size < MOST_DEFINITIONS && definitions.has(label!.toLowerCase())) labels.add(label!.toLowerCase());
  }
  return labels.size === 0 ? '' : `${[...labels].map((label) => definitions.get(label)).join('')}***\n\n`;
}
