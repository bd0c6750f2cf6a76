// The documents of a project as a tree by path. A place in it can be a folder, a document, or both: a long file is a
// document, and its further parts are below it.

import type { TreeEntry } from './tree-entry';

/** What the tree needs to know about a document. */
export interface Filed {
  documentId: string;
  path: string;
  title: string;
}

export interface FolderRow<Document extends Filed> extends TreeEntry {
  /** The last part of the path. */
  name: string;
  document: Document | undefined;
  /** Documents below it. */
  count: number;
}

interface Place<Document> {
  path: string;
  name: string;
  document: Document | undefined;
  places: Map<string, Place<Document>>;
  count: number;
}

export class FolderTree<Document extends Filed> {
  readonly #root: Place<Document> = place('', '');
  readonly #sorted = new WeakMap<Place<Document>, Place<Document>[]>();

  constructor(documents: Iterable<Document>) {
    for (const document of documents) this.#add(document);
  }

  /** The number of documents. */
  get size(): number {
    return this.#root.count;
  }

  #add(document: Document): void {
    let at = this.#root;
    at.count += 1;
    const parts = document.path.split('/');
    for (const [i, name] of parts.entries()) {
      let next = at.places.get(name);
      if (next === undefined) at.places.set(name, (next = place(parts.slice(0, i + 1).join('/'), name)));
      if (i < parts.length - 1) next.count += 1;
      at = next;
    }
    at.document = document;
  }

  #children(of: Place<Document>): Place<Document>[] {
    let sorted = this.#sorted.get(of);
    if (sorted === undefined) {
      sorted = [...of.places.values()].sort(
        (a, b) => Number(a.places.size === 0) - Number(b.places.size === 0) || order.compare(a.name, b.name),
      );
      this.#sorted.set(of, sorted);
    }
    return sorted;
  }

  /** The rows that are shown when the folders with these paths are open. */
  rows(isOpen: (path: string) => boolean): FolderRow<Document>[] {
    const rows: FolderRow<Document>[] = [];
    const walk = (of: Place<Document>, level: number): void => {
      const children = this.#children(of);
      for (const [i, { path, name, document, places, count }] of children.entries()) {
        const row: FolderRow<Document> = {
          id: path,
          parentId: level === 1 ? undefined : of.path,
          level,
          place: i + 1,
          siblings: children.length,
          name,
          document,
          count,
        };
        if (places.size > 0) row.expanded = isOpen(path);
        rows.push(row);
        if (row.expanded) walk(children[i]!, level + 1);
      }
    };
    walk(this.#root, 1);
    return rows;
  }
}

/** `part-2` comes before `part-10`. */
const order = new Intl.Collator('en', { numeric: true });

function place<Document>(path: string, name: string): Place<Document> {
  return { path, name, document: undefined, places: new Map(), count: 0 };
}

/** The folders above a path, the outermost first. */
export function foldersAbove(path: string): string[] {
  const parts = path.split('/');
  return parts.slice(1).map((_, i) => parts.slice(0, i + 1).join('/'));
}
