// The nodes of a Markdown text: those of mdast, and the ones that this page adds.

import type { Node, Nodes, Parent, PhrasingContent } from 'mdast';
import type { Range } from '../citations/fold';

/** Words that are marked, and why: a doubted claim, or the passage that somebody looks for. */
export interface Mark extends Parent {
  type: 'mark';
  kind: 'doubt' | 'passage';
  why: string;
  /** True where the marked words end. */
  last: boolean;
  children: PhrasingContent[];
}

/** A pill that leads to a source. */
export interface Cite extends Node {
  type: 'cite';
  /** Where it stands in the text. */
  key: string;
  /** The footnote. */
  note: string;
}

declare module 'mdast' {
  interface PhrasingContentMap {
    mark: Mark;
    cite: Cite;
  }
  interface RootContentMap {
    mark: Mark;
    cite: Cite;
  }
  interface CodeData {
    /** The text in pieces, each with the kind of its words. */
    tokens?: [kind: string, text: string][];
    /** The text with marks. */
    marked?: PhrasingContent[];
  }
  interface FootnoteReferenceData {
    /** The number of its footnote, and which of its references this is. Both count from 1. */
    number?: number;
    ref?: number;
  }
  interface FootnoteDefinitionData {
    /** The document that it begins with, and the words of that document. */
    document?: string;
    quote?: string;
  }
}

/** Where a node stands in the source of the text. */
export const rangeOf = ({ position }: Nodes): Range => ({
  from: position?.start.offset ?? 0,
  to: position?.end.offset ?? 0,
});

/** What is read of a node. */
export function visible(node: Nodes): string {
  if ('value' in node) return node.value;
  return 'children' in node ? node.children.map(visible).join('') : '';
}
