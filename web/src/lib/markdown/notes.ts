// The footnotes of a text, whose references and definitions may come in any order and in any slice. They are numbered
// in the order of their first reference. A footnote without a reference comes last.

import type { FootnoteDefinition, Nodes, Parents, Root, RootContent } from 'mdast';

export interface Note {
  /** What references name it by. */
  identifier: string;
  number: number;
  /** How many references lead to it. */
  refs: number;
  /** The document that it begins with. */
  document?: string | undefined;
  /** The words of that document. */
  quote?: string | undefined;
  children: RootContent[];
}

export class Notes {
  readonly #definitions = new Map<string, FootnoteDefinition>();
  /** In the order of their numbers. */
  readonly #counts = new Map<string, { number: number; refs: number }>();

  /** Numbers the references of a part of the text, and takes the definitions out of it. */
  take(part: Root): void {
    this.#visit(part);
  }

  /** All footnotes, when all parts have been taken. */
  finish(): Note[] {
    for (const key of this.#definitions.keys()) this.#count(key);
    const found: Note[] = [];
    for (const [key, count] of this.#counts) {
      const definition = this.#definitions.get(key);
      if (definition === undefined) continue;
      this.#visit(definition);
      found.push(
        Object.assign(count, definition.data, { identifier: definition.identifier, children: definition.children }),
      );
    }
    return found;
  }

  #count(key: string): { number: number; refs: number } {
    let count = this.#counts.get(key);
    if (count === undefined) this.#counts.set(key, (count = { number: this.#counts.size + 1, refs: 0 }));
    return count;
  }

  #visit(node: Nodes): void {
    if (node.type === 'footnoteReference') {
      const count = this.#count(node.identifier);
      count.refs += 1;
      node.data = { number: count.number, ref: count.refs };
    } else if ('children' in node) {
      const parent = node as Parents;
      const children = parent.children as RootContent[];
      for (const child of children) {
        if (child.type === 'footnoteDefinition') this.#define(child);
        else this.#visit(child);
      }
      (parent.children as RootContent[]) = children.filter((child) => child.type !== 'footnoteDefinition');
    }
  }

  #define(node: FootnoteDefinition): void {
    const isSecond = this.#definitions.has(node.identifier);
    this.#definitions.set(isSecond ? `${node.identifier}\n${this.#definitions.size}` : node.identifier, node);
  }
}
