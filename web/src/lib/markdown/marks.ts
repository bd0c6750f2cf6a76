// Marks places of the source in a tree of Markdown.

import type { Nodes, Parents, PhrasingContent, Root, RootContent } from 'mdast';
import { findAll, fold, type Range } from '../citations/fold';
import { origins, pieceOf } from './origins';
import { rangeOf, type Mark } from './tree';

export interface Doubt {
  claim: string;
  /** What is wrong with it. */
  why: string;
}

export interface Place extends Range {
  kind: Mark['kind'];
  why: string;
}

/** Where a part of a text says claims. It begins at `from` of the whole. */
export function placesOf(text: string, from: number, doubts: readonly Doubt[]): Place[] {
  const whys = new Map<string, string>();
  for (const { claim, why } of doubts) {
    const before = whys.get(claim);
    whys.set(claim, before === undefined || before === why ? why : `${before}; ${why}`);
  }
  const folded = fold(whys.size === 0 ? '' : text);
  const found: Place[] = [];
  for (const [claim, why] of whys) {
    // A row of a table may have footnotes behind its cells, and white space before them.
    for (const range of findAll(folded, claim))
      found.push({ kind: 'doubt', why, from: range.from + from, to: range.to + from });
  }
  return apart(found);
}

/** In order, and without the parts that an earlier one covers. */
function apart(found: Place[]): Place[] {
  const out: Place[] = [];
  let end = 0;
  for (const one of found.sort((a, b) => a.from - b.from || b.to - a.to)) {
    if (one.to <= end) continue;
    out.push({ ...one, from: Math.max(one.from, end) });
    end = one.to;
  }
  return out;
}

/** A copy of the tree with marks. `text` is what it was read from; it begins at `from` of the whole. */
export function mark(tree: Root, text: string, from: number, places: readonly Place[]): Root {
  if (places.length === 0) return tree;
  const marker = new Marker(text, from);
  const marked = marker.copy(tree, places);
  marker.lasts.forEach((one) => (one.last = true));
  return marked;
}

class Marker {
  readonly #text: string;
  readonly #from: number;
  /** The last mark of each place. */
  readonly lasts = new Map<Place, Mark>();

  constructor(text: string, from: number) {
    this.#text = text;
    this.#from = from;
  }

  copy<Parent extends Parents>(parent: Parent, places: readonly Place[]): Parent {
    const children = (parent.children as RootContent[]).flatMap((node) => this.#node(node, places));
    return { ...parent, children };
  }

  #node(node: RootContent, places: readonly Place[]): RootContent[] {
    const { from, to } = rangeOf(node);
    const here = places.filter((one) => one.from < to && one.to > from);
    if (here.length === 0) return [node];
    if (node.type === 'text' || node.type === 'inlineCode') return this.#split(node, here);
    if (node.type === 'code') {
      // What a code block shows is text with marks.
      const parts = this.#split({ type: 'text', value: node.value, position: node.position }, here, node);
      return parts.some((part) => part.type === 'mark') ? [{ ...node, data: { marked: parts } }] : [node];
    }
    return 'children' in node ? [this.copy(node, here)] : [node];
  }

  #split(
    node: Extract<Nodes, { type: 'text' | 'inlineCode' }>,
    places: readonly Place[],
    source: Parameters<typeof origins>[0] = node,
  ): PhrasingContent[] {
    const starts = origins(source, this.#text, this.#from);
    const out: PhrasingContent[] = [];
    let shown = 0;
    const piece = (end: number): PhrasingContent[] => {
      const found = pieceOf(node, starts, shown, end);
      shown = Math.max(shown, end);
      return found;
    };
    for (const place of places) {
      const begin = before(starts, place.from);
      out.push(...piece(begin));
      const children = piece(before(starts, place.to));
      if (children.length === 0) continue;
      const one: Mark = { type: 'mark', kind: place.kind, why: place.why, last: false, children };
      this.lasts.set(place, one);
      out.push(one);
    }
    return [...out, ...piece(node.value.length)];
  }
}

/** The first unit that stands at a place of the source or behind it. */
function before(starts: Uint32Array, at: number): number {
  let [low, high] = [0, starts.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (starts[middle]! < at) low = middle + 1;
    else high = middle;
  }
  return low;
}
