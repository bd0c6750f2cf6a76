// The text of an answer as its page shows it: without what the page says elsewhere, and with pills where it cites.

import type { Heading, List, ListItem, Nodes, Parents, PhrasingContent, Root, RootContent, Text } from 'mdast';
import { origins, pieceOf } from '../markdown/origins';
import type { Part } from '../markdown/reader.svelte';
import { rangeOf, visible } from '../markdown/tree';

/** The list of sources of an answer, to whose numbers marks such as `[1]` refer. */
const SOURCES = '\n## Sources\n';
const LIST = /\n*((?:\d{1,4}\. [^\n]*\n+)+)(?=## |$)/y;
const MARK = /\[(\d{1,4})\]/g;
const OPENING = /^\u201c\s*/;
const CLOSING = /\s*\u201d\s*$/;

/** The text without its list of sources, and the entries of that list. */
export function withoutSources(body: string): { text: string; names: string[] } {
  const at = body.lastIndexOf(SOURCES);
  LIST.lastIndex = at + SOURCES.length;
  const [found, list] = (at < 0 ? null : LIST.exec(`${body}\n`)) ?? [];
  if (found === undefined) return { text: body, names: [] };
  const names = list!.split('\n').flatMap((line) => /^\d+\. (.+)$/.exec(line)?.[1] ?? []);
  return { text: `${body.slice(0, at)}\n\n${body.slice(at + SOURCES.length + found.length)}`, names };
}

export interface Shape {
  /** The first heading is left out if it says this. */
  title: string;
  /** How many sources the marks in the text may name. */
  marks: number;
  /** True for a footnote that is a citation. */
  isCited: (identifier: string) => boolean;
}

/** A copy of the tree of a part. The keys of its pills are places in the text. */
export function shaped(part: Part, tree: Root, shape: Shape): Root {
  const [first, ...rest] = tree.children;
  const isTitle = part.from === 0 && first?.type === 'heading' && first.depth === 1 && isSame(first, shape.title);
  return new Shaper(part, shape).copy({ ...tree, children: isTitle ? rest : tree.children });
}

const flat = (text: string): string => text.replace(/\s+/g, ' ').trim();
const isSame = (heading: Heading, title: string): boolean => flat(visible(heading)) === flat(title);

class Shaper {
  readonly #part: Part;
  readonly #shape: Shape;

  constructor(part: Part, shape: Shape) {
    this.#part = part;
    this.#shape = shape;
  }

  copy<Parent extends Parents>(parent: Parent): Parent {
    return { ...parent, children: (parent.children as RootContent[]).flatMap((node) => this.#node(node)) };
  }

  #node(node: RootContent): RootContent[] {
    if (node.type === 'list') return quotations(this.copy(node));
    if (node.type === 'text') return this.#text(node);
    if (node.type === 'footnoteReference' && this.#shape.isCited(node.identifier))
      return [{ type: 'cite', key: String(rangeOf(node).from), note: node.identifier }];
    return 'children' in node && node.type !== 'link' ? [this.copy(node)] : [node];
  }

  #text(node: Text): PhrasingContent[] {
    if (this.#shape.marks === 0 || !node.value.includes('[')) return [node];
    const starts = origins(node, this.#part.text, this.#part.from);
    const out: PhrasingContent[] = [];
    let shown = 0;
    const piece = (end: number): void => void out.push(...pieceOf(node, starts, shown, end));
    for (const { 0: said, 1: number, index } of node.value.matchAll(MARK)) {
      if (Number(number) < 1 || Number(number) > this.#shape.marks) continue;
      piece(index);
      out.push({ type: 'cite', key: `${starts[index]}.${number}` });
      shown = index + said.length;
    }
    piece(node.value.length);
    return out;
  }
}

/** A list whose items are quotations, each with its marks behind it: quotations are blocks of their own. */
function quotations(list: List): RootContent[] {
  const quoted = list.children.map(quotation);
  return quoted.every((one) => one !== undefined) && quoted.length > 0
    ? quoted.map((children) => ({ type: 'blockquote', children: children as never }))
    : [list];
}

/** The blocks of an item that is a quotation, without its quotation marks. */
function quotation({ children }: ListItem): Nodes[] | undefined {
  const first = children[0];
  let last: Nodes | undefined = children.at(-1);
  while (last?.type === 'list' || last?.type === 'listItem' || last?.type === 'blockquote') last = last.children.at(-1);
  if (first?.type !== 'paragraph' || last?.type !== 'paragraph') return undefined;
  const end = last.children.findLastIndex((part) => part.type !== 'cite' && visible(part).trim() !== '');
  const [opening, closing] = [first.children[0], last.children[end]];
  if (opening?.type !== 'text' || !OPENING.test(opening.value)) return undefined;
  if (closing?.type !== 'text' || !CLOSING.test(closing.value) || end === last.children.length - 1) return undefined;
  const edit = (node: Nodes): Nodes => {
    if (node.type !== 'text')
      return 'children' in node ? ({ ...node, children: node.children.map(edit) } as Nodes) : node;
    let { value } = node;
    if (node === opening) value = value.replace(OPENING, '');
    // The mark stays on the line of the last word.
    if (node === closing) value = value.replace(CLOSING, '\u00a0');
    return { ...node, value };
  };
  const isEmpty = (node: Nodes): boolean =>
    node.type === 'paragraph' && visible(node).trim() === '' && !node.children.some((part) => part.type === 'cite');
  return children.map(edit).filter((block) => !isEmpty(block));
}
