// From Markdown to a tree that is safe to show. HTML is text, and so is a link that a click could run. It runs in a
// worker, because the parser takes quadratic time for some texts.

import type { FootnoteDefinition, Nodes, Parents, PhrasingContent, Root, RootContent, Text } from 'mdast';
import { fromMarkdown } from 'mdast-util-from-markdown';
import { gfmFromMarkdown } from 'mdast-util-gfm';
import { gfm } from 'micromark-extension-gfm';
import { origins } from './origins';
import type { Slice } from './slices';
import { rangeOf } from './tree';

/** Also to the documents of a run: as an overview links them, and by their ids. */
const SAFE_LINK = /^(?:https?:|mailto:)|^[^:?#\\]+\/document\.md$|^document:[\da-f-]{36}$/i;
/** Other addresses have a scheme, and a click could run them. Their links stay as they were written. */
const MAY_STAY = new RegExp(`${SAFE_LINK.source}|^[^:]+$`, 'i');
/** Deeper nesting is shown as text. This bounds every recursion over the tree. */
const MAX_DEPTH = 24;
/** A document's id at the beginning, in code or brackets or without, and what separates it from its words. */
const SOURCE =
  /^[<`]?([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})[>`]?(?![\w-])[\s:,\u2013\u2014-]*/i;
const LABEL = /^ {0,3}\[\^[^\]]*\]:[ \t]*/;
/** What a line of a footnote may be indented by. */
const INDENT = /\n(?: {2,4}|\t)/g;
const QUOTATION = /["\u201c-\u201f\u00ab\u00bb]/;
/** What the role service adds at the end of a footnote whose citations do not hold. */
const REMARK = /\((?:unverified|nicht belegt): [^()"\u201c-\u201f\u00ab\u00bb]*\)\s*$/;

const extensions = [gfm()];
// Without the transforms, which make nodes that have no position. The tokenizer finds addresses anyway.
const mdastExtensions = gfmFromMarkdown().map(({ transforms: _, ...rest }) => rest);

/** Every position counts from the beginning of the whole text. */
export function parse({ text, before, from }: Slice): Root {
  const source = before + text;
  const root = fromMarkdown(source, { extensions, mdastExtensions });
  const tidy = new Tidy(source, from - before.length, root);
  root.children = root.children.filter((node) => rangeOf(node).to > before.length || before === '');
  tidy.children(root, 0);
  return root;
}

class Tidy {
  readonly #source: string;
  readonly #shift: number;
  /** The addresses of links that are defined elsewhere. */
  readonly #urls = new Map<string, string>();

  constructor(source: string, shift: number, root: Root) {
    this.#source = source;
    this.#shift = shift;
    for (const node of root.children)
      if (node.type === 'definition' && !this.#urls.has(node.identifier)) this.#urls.set(node.identifier, node.url);
  }

  children(parent: Parents, depth: number): void {
    const done = (parent.children as RootContent[]).flatMap((node) => this.#node(node, depth + 1));
    (parent.children as RootContent[]) = done;
  }

  #node(node: RootContent, depth: number): RootContent[] {
    const said = this.#said(node);
    if (node.type === 'footnoteDefinition') this.#note(node, said);
    if (node.type === 'definition') return [];
    const link = this.#link(node, said);
    if (depth > MAX_DEPTH && 'children' in link) return [this.#text(node, said)];
    if ('children' in link) this.children(link, depth);
    // An address within the document's own folder leads nowhere from here.
    if (link.type === 'link' && !SAFE_LINK.test(link.url)) return link.children;
    this.#move(link);
    return [link];
  }

  #said(node: Nodes): string {
    const { from, to } = rangeOf(node);
    return this.#source.slice(from, to);
  }

  #move({ position }: Nodes): void {
    if (position === undefined) return;
    for (const point of [position.start, position.end]) point.offset = Math.max(0, (point.offset ?? 0) + this.#shift);
  }

  #text(node: Nodes, value: string): Text {
    const text: Text = { type: 'text', value, ...(node.position && { position: node.position }) };
    this.#move(text);
    return text;
  }

  /** Links of every form are links; so are images, because nothing is loaded from elsewhere. */
  #link(node: RootContent, said: string): RootContent {
    const position = node.position && { position: node.position };
    switch (node.type) {
      case 'html':
        return { type: 'text', value: node.value, ...position };
      case 'link':
        return MAY_STAY.test(node.url) ? node : { type: 'text', value: said, ...position };
      case 'image':
      case 'imageReference':
      case 'linkReference': {
        const url = node.type === 'image' ? node.url : (this.#urls.get(node.identifier) ?? '');
        if (!MAY_STAY.test(url)) return { type: 'text', value: said, ...position };
        const children: PhrasingContent[] =
          'children' in node ? node.children : [{ type: 'text', value: node.alt || url, ...structuredClone(position) }];
        return { type: 'link', url, children, ...position };
      }
      default:
        return node;
    }
  }

  /** A footnote that begins with a document says which one, and shows only the rest. */
  #note(node: FootnoteDefinition, said: string): void {
    const label = LABEL.exec(said)?.[0].length ?? 0;
    const source = SOURCE.exec(said.slice(label));
    if (source === null) return;
    const quote = quoted(said.slice(label + source[0].length).replace(INDENT, '\n'));
    node.data = { document: source[1]!.toLowerCase(), ...(quote === '' ? {} : { quote }) };
    const cut = rangeOf(node).from + label + source[0].length;
    const [first] = node.children;
    if (first?.type !== 'paragraph') return;
    first.children = first.children.filter((part) => rangeOf(part).to > cut);
    const [part] = first.children;
    if (part?.type === 'text') {
      const at = origins(part, this.#source).findIndex((origin) => origin >= cut);
      part.value = part.value.slice(at);
      part.position!.start.offset = cut;
    }
    if (first.children.length === 0) node.children.shift();
  }
}

/** The words within quotation marks; all words if there are none. */
function quoted(text: string): string {
  const said = text.replace(REMARK, '');
  let from = said.search(QUOTATION);
  if (from < 0) return said.trim();
  let to = said.length - 1;
  while (to > from && !QUOTATION.test(said[to]!)) to -= 1;
  if (to === from) to = said.length;
  while (from < to && QUOTATION.test(said[from]!)) from += 1;
  return said.slice(from, to).trim();
}
