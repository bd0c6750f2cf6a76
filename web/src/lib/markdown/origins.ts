// Where the characters of a text come from in the source. Escapes, entities and the indentation of lines lie between.

import type { Code, InlineCode, Text } from 'mdast';
import type { Point } from 'unist';
import { rangeOf } from './tree';

const ENTITY = /&#?\w{1,31};/y;
const FENCE = /^ {0,3}(?:`{3,}|~{3,})[^\n]*\n/;
/** What is skipped between two characters is shorter. */
const GAP = 200;

/** For each unit of the value, and for its end, where it stands in the source. */
export function origins(node: Text | InlineCode | Code, source: string, shift = 0): Uint32Array {
  const { from, to } = rangeOf(node);
  const { value } = node;
  const out = new Uint32Array(value.length + 1);
  let at = from - shift;
  const end = to - shift;
  if (node.type === 'code') at += FENCE.exec(source.slice(at, end))?.[0].length ?? 0;
  for (let i = 0; i < value.length; i++) {
    ENTITY.lastIndex = at;
    const entity = node.type === 'text' && source[at] === '&' ? ENTITY.exec(source)?.[0] : undefined;
    if (entity !== undefined && !value.startsWith(entity, i)) {
      out[i] = at + shift;
      if (/[\ud800-\udbff]/.test(value[i]!)) out[++i] = at + shift;
      at += entity.length;
      continue;
    }
    if (source[at] !== value[i]) {
      const next = source.slice(at, Math.min(end, at + GAP)).indexOf(value[i]!);
      if (next > 0) at += next;
    }
    out[i] = at + shift;
    at = Math.min(end, at + 1);
  }
  out[value.length] = to;
  return out;
}

/** A part of a text, which stands where it stood; nothing if it is empty. */
export function pieceOf<Node extends Text | InlineCode>(
  node: Node,
  starts: Uint32Array,
  from: number,
  to: number,
): Node[] {
  if (to <= from) return [];
  const point = (at: number): Point => ({ line: 0, column: 0, offset: starts[at]! });
  return [{ ...node, value: node.value.slice(from, to), position: { start: point(from), end: point(to) } }];
}
