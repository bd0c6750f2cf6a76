// Markdown to a small tree of plain values. Nothing in it is ever HTML: the component that shows it makes elements with
// text in them, so that whatever a title, scratchpad or tool result says is shown and never run.

export type Inline =
  | { kind: 'text'; text: string }
  | { kind: 'code'; text: string }
  | { kind: 'strong'; children: Inline[] }
  | { kind: 'em'; children: Inline[] }
  | { kind: 'link'; href: string; children: Inline[] };

export type Block =
  | { kind: 'heading'; level: number; children: Inline[] }
  | { kind: 'paragraph'; children: Inline[] }
  | { kind: 'code'; text: string; lang: string }
  | { kind: 'quote'; blocks: Block[] }
  | { kind: 'list'; ordered: boolean; start: number; items: Block[][] }
  | { kind: 'table'; head: Inline[][]; rows: Inline[][][] }
  | { kind: 'rule' };

const SAFE_LINK = /^(https?:|mailto:)/i;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const INLINE = /(`+)([\s\S]*?[^`])\1(?!`)|\*\*([^*\n]+(?:\*[^*\n]+)*)\*\*|__([^_\n]+)__|\*([^*\s][^*\n]*)\*|(?<![\w])_([^_\s][^_\n]*)_(?![\w])|\[([^\]\n]{0,500})\]\(([^)\s]{1,2000})\)|(https?:\/\/[^\s<>()\]]+)/g;
/** Deeper nesting is shown as text: nobody writes it, and recursion stays bounded. */
const DEEPEST = 12;

export function inline(text: string, depth = 0): Inline[] {
  if (depth > DEEPEST) return [{ kind: 'text', text }];
  const out: Inline[] = [];
  let last = 0;
  for (const m of text.matchAll(INLINE)) {
    if (m.index > last) out.push({ kind: 'text', text: text.slice(last, m.index) });
    last = m.index + m[0].length;
    const strong = m[3] ?? m[4];
    const em = m[5] ?? m[6];
    if (m[2] !== undefined) out.push({ kind: 'code', text: m[2].trim() });
    else if (strong !== undefined) out.push({ kind: 'strong', children: inline(strong, depth + 1) });
    else if (em !== undefined) out.push({ kind: 'em', children: inline(em, depth + 1) });
    else if (m[8] !== undefined && SAFE_LINK.test(m[8])) out.push({ kind: 'link', href: m[8], children: inline(m[7] ?? '', depth + 1) });
    else if (m[9] !== undefined) out.push({ kind: 'link', href: m[9], children: [{ kind: 'text', text: m[9] }] });
    else out.push({ kind: 'text', text: m[0] });
  }
  if (last < text.length) out.push({ kind: 'text', text: text.slice(last) });
  return out;
}

export function markdown(text: string): Block[] {
  return blocks(text.replace(/\r\n?/g, '\n').split('\n'), 0);
}

function blocks(lines: string[], depth: number): Block[] {
  const out: Block[] = [];
  let i = 0;
  const paragraph: string[] = [];
  const flush = (): void => {
    if (paragraph.length > 0) out.push({ kind: 'paragraph', children: inline(paragraph.join('\n')) });
    paragraph.length = 0;
  };
  while (i < lines.length) {
    const line = lines[i]!;
    const fence = /^\s{0,3}(```+|~~~+)\s*([\w+-]*)/.exec(line);
    const heading = /^(#{1,6})\s+(.*?)\s*#*$/.exec(line);
    if (fence) {
      flush();
      const end = lines.findIndex((l, at) => at > i && l.trim().startsWith(fence[1]!));
      const until = end < 0 ? lines.length : end;
      out.push({ kind: 'code', text: lines.slice(i + 1, until).join('\n'), lang: fence[2] ?? '' });
      i = until + 1;
    } else if (heading) {
      flush();
      out.push({ kind: 'heading', level: heading[1]!.length, children: inline(heading[2]!) });
      i += 1;
    } else if (/^\s{0,3}([-*_])(\s*\1){2,}\s*$/.test(line)) {
      flush();
      out.push({ kind: 'rule' });
      i += 1;
    } else if (/^\s{0,3}>/.test(line) && depth < DEEPEST) {
      flush();
      const from = i;
      while (i < lines.length && /^\s{0,3}>/.test(lines[i]!)) i += 1;
      out.push({ kind: 'quote', blocks: blocks(lines.slice(from, i).map((l) => l.replace(/^\s{0,3}> ?/, '')), depth + 1) });
    } else if (ITEM.test(line) && depth < DEEPEST) {
      flush();
      i = list(lines, i, depth, out);
    } else if (line.includes('|') && /^\s*\|?[\s:|-]*-[\s:|-]*\|?\s*$/.test(lines[i + 1] ?? '') && (lines[i + 1] ?? '').includes('|')) {
      flush();
      i = table(lines, i, out);
    } else {
      if (line.trim() === '') flush();
      else paragraph.push(line);
      i += 1;
    }
  }
  flush();
  return out;
}

function list(lines: string[], at: number, depth: number, out: Block[]): number {
  const first = ITEM.exec(lines[at]!)!;
  const indent = first[1]!.length;
  const ordered = /\d/.test(first[2]!);
  const items: string[][] = [];
  let i = at;
  for (; i < lines.length; i++) {
    const line = lines[i]!;
    const item = ITEM.exec(line);
    if (item && item[1]!.length <= indent + 1) {
      if (item[1]!.length < indent || /\d/.test(item[2]!) !== ordered) break;
      items.push([item[3]!]);
    } else if (line.trim() === '') {
      const next = lines[i + 1];
      if (next === undefined || !(ITEM.test(next) || /^\s{2,}\S/.test(next))) break;
      items.at(-1)!.push('');
    } else if (/^\s+/.test(line) || item) items.at(-1)!.push(line.replace(new RegExp(`^\\s{0,${indent + 2}}`), ''));
    else break;
  }
  const start = ordered ? Number.parseInt(first[2]!, 10) : 1;
  out.push({ kind: 'list', ordered, start, items: items.map((l) => blocks(l, depth + 1)) });
  return i;
}

function table(lines: string[], at: number, out: Block[]): number {
  const cells = (line: string): Inline[][] =>
    line.trim().replace(/^\||\|$/g, '').split(/(?<!\\)\|/).map((c) => inline(c.trim().replaceAll('\\|', '|')));
  const rows: Inline[][][] = [];
  let i = at + 2;
  for (; i < lines.length && lines[i]!.includes('|') && lines[i]!.trim() !== ''; i++) rows.push(cells(lines[i]!));
  out.push({ kind: 'table', head: cells(lines[at]!), rows });
  return i;
}
