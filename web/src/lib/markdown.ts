// Markdown as a small tree of plain values. Nothing in it is ever HTML: the component that shows it creates elements
// with text in them, so whatever a title, scratchpad or tool result says is shown and never run.
//
// The text comes from models and tools, so every rule takes time linear in its length. No regular expression here can
// backtrack over more than a few characters, and a search for a closing mark never reads the same characters twice.

import { inline, type Inline } from './markdown-inline';
import { definition, resolveNotes, type Definition, type Note } from './markdown-notes';

export type { Inline, Note };

export type Block =
  | { kind: 'heading'; level: number; children: Inline[] }
  | { kind: 'paragraph'; children: Inline[] }
  | { kind: 'code'; text: string; lang: string }
  | { kind: 'quote'; blocks: Block[] }
  | { kind: 'list'; ordered: boolean; start: number; items: Block[][] }
  | { kind: 'table'; head: Inline[][]; rows: Inline[][][] }
  | { kind: 'rule' }
  | { kind: 'notes'; notes: Note[] };

const HEADING = /^#{1,6}(?=\s)/;
/** Deeper nesting is shown as text. This bounds the recursion. */
const MAX_DEPTH = 12;
/** A line indented further than this starts no block of its own, except a list item. */
const MAX_INDENT = 3;

export function markdown(text: string): Block[] {
  const definitions: Definition[] = [];
  const tree = blocks(text.replace(/\r\n?/g, '\n').split('\n'), 0, definitions);
  const notes = resolveNotes(tree, definitions, (lines) => blocks(lines, 1));
  if (notes.length > 0) tree.push({ kind: 'notes', notes });
  return tree;
}

/** Definitions of footnotes go to `definitions`; without it, they are text. */
function blocks(lines: string[], depth: number, definitions?: Definition[]): Block[] {
  const out: Block[] = [];
  let i = 0;
  const paragraph: string[] = [];
  const flush = (): void => {
    if (paragraph.length > 0) out.push({ kind: 'paragraph', children: inline(paragraph.join('\n')) });
    paragraph.length = 0;
  };
  while (i < lines.length) {
    const line = lines[i]!;
    const fence = openingFence(line);
    const title = heading(line);
    const note = definitions && definition(lines, i, beginsBlock);
    if (fence) {
      flush();
      let end = i + 1;
      while (end < lines.length && !lines[end]!.trimStart().startsWith(fence.marks)) end += 1;
      out.push({ kind: 'code', text: lines.slice(i + 1, end).join('\n'), lang: fence.lang });
      i = end + 1;
    } else if (title) {
      flush();
      out.push(title);
      i += 1;
    } else if (note) {
      flush();
      definitions!.push(note.found);
      i = note.next;
    } else if (isRule(line)) {
      flush();
      out.push({ kind: 'rule' });
      i += 1;
    } else if (isQuote(line) && depth < MAX_DEPTH) {
      flush();
      const quoted: string[] = [];
      for (; i < lines.length && isQuote(lines[i]!); i++) quoted.push(unquote(lines[i]!));
      out.push({ kind: 'quote', blocks: blocks(quoted, depth + 1) });
    } else if (depth < MAX_DEPTH && listItem(line)) {
      flush();
      i = list(lines, i, depth, out);
    } else if (line.includes('|') && isTableDelimiter(lines[i + 1] ?? '')) {
      flush();
      i = table(lines, i, out);
    } else {
      if (isBlank(line)) flush();
      else paragraph.push(line);
      i += 1;
    }
  }
  flush();
  return out;
}

/** Whether a line begins something else than a paragraph. */
const beginsBlock = (line: string): boolean =>
  openingFence(line) !== undefined ||
  HEADING.test(line) ||
  isRule(line) ||
  isQuote(line) ||
  listItem(line) !== undefined;
const isBlank = (line: string): boolean => line.trim() === '';
const indentOf = (line: string): number => line.length - line.trimStart().length;
/** Without the first `most` characters of its indentation. */
const dedent = (line: string, most: number): string => line.slice(Math.min(indentOf(line), most));

function openingFence(line: string): { marks: string; lang: string } | undefined {
  const text = line.trimStart();
  if (!/^(?:```|~~~)/.test(text) || indentOf(line) > MAX_INDENT) return undefined;
  let length = 3;
  while (text[length] === text[0]) length += 1;
  return { marks: text.slice(0, length), lang: /^[\w+-]*/.exec(text.slice(length).trimStart())![0] };
}

function heading(line: string): Block | undefined {
  const level = HEADING.exec(line)?.[0].length;
  if (level === undefined) return undefined;
  const text = line.slice(level).trim();
  let end = text.length;
  while (text[end - 1] === '#') end -= 1;
  // Closing marks stand alone: `# C#` is about C#.
  const closed = end === 0 || text[end - 1]!.trim() === '';
  return { kind: 'heading', level, children: inline(closed ? text.slice(0, end).trimEnd() : text) };
}

function isRule(line: string): boolean {
  if (indentOf(line) > MAX_INDENT) return false;
  const marks = line.replace(/\s/g, '');
  return marks.length >= 3 && '-*_'.includes(marks[0]!) && marks.replaceAll(marks[0]!, '') === '';
}

const isQuote = (line: string): boolean => line.trimStart().startsWith('>') && indentOf(line) <= MAX_INDENT;

function unquote(line: string): string {
  const text = line.trimStart().slice(1);
  return text.startsWith(' ') ? text.slice(1) : text;
}

interface ListItem {
  indent: number;
  ordered: boolean;
  start: number;
  text: string;
}

function listItem(line: string): ListItem | undefined {
  const text = line.trimStart();
  const marker = /^(?:[-*+]|\d{1,9}[.)])(?=\s)/.exec(text)?.[0];
  if (marker === undefined) return undefined;
  const number = Number.parseInt(marker, 10);
  const ordered = !Number.isNaN(number);
  return {
    indent: line.length - text.length,
    ordered,
    start: ordered ? number : 1,
    text: text.slice(marker.length).trimStart(),
  };
}

function list(lines: string[], at: number, depth: number, out: Block[]): number {
  const { indent, ordered, start } = listItem(lines[at]!)!;
  const items: string[][] = [];
  let i = at;
  for (; i < lines.length; i++) {
    const line = lines[i]!;
    const item = listItem(line);
    if (item && item.indent <= indent + 1) {
      if (item.indent < indent || item.ordered !== ordered) break;
      items.push([item.text]);
    } else if (isBlank(line)) {
      const next = lines[i + 1] ?? '';
      if (!listItem(next) && (isBlank(next) || indentOf(next) < 2)) break;
      items.at(-1)!.push('');
    } else if (item || indentOf(line) > 0) items.at(-1)!.push(dedent(line, indent + 2));
    else break;
  }
  out.push({ kind: 'list', ordered, start, items: items.map((l) => blocks(l, depth + 1)) });
  return i;
}

/** The line below a table's head, such as `|---|:-:|`. */
const isTableDelimiter = (line: string): boolean => line.includes('|') && line.includes('-') && !/[^\s:|-]/.test(line);

function table(lines: string[], at: number, out: Block[]): number {
  const rows: Inline[][][] = [];
  let i = at + 2;
  for (; i < lines.length && lines[i]!.includes('|'); i++) rows.push(cells(lines[i]!));
  out.push({ kind: 'table', head: cells(lines[at]!), rows });
  return i;
}

/** The cells of a row of a table. */
export function cells(line: string): Inline[][] {
  const row = line.trim().replace(/^\||\|$/g, '');
  return row.split(/(?<!\\)\|/).map((cell) => inline(cell.trim().replaceAll('\\|', '|')));
}
