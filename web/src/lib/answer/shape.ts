// The text of an answer as its page shows it: without what the page says elsewhere, and with pills where it cites. A
// pill is a reference to a footnote of the answer. Text of a source never makes one.

import type { Heading, Parents, Root, RootContent } from 'mdast';
import type { Part } from '../markdown/reader.svelte';
import { rangeOf, visible } from '../markdown/tree';

export interface Shape {
  /** The first heading is left out if this says the same. */
  title: string;
  /** True for a footnote that is a citation. */
  isCited: (identifier: string, at: number) => boolean;
}

/** A copy of the tree of a part. The keys of its pills are places in the text. */
export function shaped(part: Part, tree: Root, shape: Shape): Root {
  const [first, ...rest] = tree.children;
  const isTitle = part.from === 0 && first?.type === 'heading' && first.depth === 1 && isSame(first, shape.title);
  return new Shaper(shape).copy({ ...tree, children: isTitle ? rest : tree.children });
}

const flat = (text: string): string => text.replace(/\s+/g, ' ').trim();
/** A heading may be a part of what the page says whole. */
const isSame = (heading: Heading, title: string): boolean =>
  flat(title).includes(flat(visible(heading)).replace(/ \u2026$/, ''));

class Shaper {
  readonly #shape: Shape;

  constructor(shape: Shape) {
    this.#shape = shape;
  }

  copy<Parent extends Parents>(parent: Parent): Parent {
    return { ...parent, children: (parent.children as RootContent[]).map((node) => this.#node(node)) };
  }

  #node(node: RootContent): RootContent {
    const { from } = rangeOf(node);
    if (node.type === 'footnoteReference' && this.#shape.isCited(node.identifier, from))
      return { type: 'cite', key: String(from), note: node.identifier };
    return 'children' in node && node.type !== 'link' ? this.copy(node) : node;
  }
}
