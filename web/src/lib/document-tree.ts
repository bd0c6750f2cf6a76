// The documents of a run as a tree: each below the document that its run has linked it to. Documents of old runs have
// no such place; they are below their nodes.

import type { DocumentSummary } from '../gen/treeagent/v1/document_service_pb';
import { kindLook } from './document-kinds';
import type { TreeEntry } from './tree-entry';

export interface DocumentRow extends TreeEntry {
  /** Undefined for a node, which is a row if documents without a place are below it. */
  document: DocumentSummary | undefined;
  nodeId: string;
}

/** What the tree needs to know about nodes. */
export interface NodeOrder {
  /** The position of a node in order of creation, or -1. */
  position(id: string): number;
}

/** The row of a node. */
export const nodeRow = (nodeId: string): string => `node:${nodeId}`;

export class DocumentTree {
  readonly #below = new Map<string, DocumentSummary[]>();
  readonly #byId: ReadonlyMap<string, DocumentSummary>;
  /** Nodes that have documents without a place. */
  readonly #nodes: string[];

  constructor(documents: readonly DocumentSummary[], order: NodeOrder) {
    this.#byId = new Map(documents.map((document) => [document.documentId, document]));
    const nodes = new Set<string>();
    for (const document of documents) {
      const above = this.#above(document);
      if (above.startsWith(nodeRow(''))) nodes.add(document.nodeId!);
      const siblings = this.#below.get(above);
      if (siblings === undefined) this.#below.set(above, [document]);
      else siblings.push(document);
    }
    const place = new Map(
      documents.map(({ documentId, nodeId }) => [documentId, nodeId === undefined ? -1 : order.position(nodeId)]),
    );
    for (const siblings of this.#below.values()) {
      siblings.sort(
        (a, b) =>
          kindLook(a.kind).rank - kindLook(b.kind).rank ||
          a.iteration - b.iteration ||
          place.get(a.documentId)! - place.get(b.documentId)! ||
          names.compare(a.title, b.title) ||
          (a.documentId < b.documentId ? -1 : 1),
      );
    }
    this.#nodes = [...nodes].sort((a, b) => order.position(a) - order.position(b));
  }

  get size(): number {
    return this.#byId.size;
  }

  /** The id of the row above a document; empty at the top. */
  #above({ parentId, nodeId, kind }: DocumentSummary): string {
    if (parentId !== '' && this.#byId.has(parentId)) return parentId;
    return kindLook(kind).rank === 0 || nodeId === undefined ? '' : nodeRow(nodeId);
  }

  document(id: string): DocumentSummary | undefined {
    return this.#byId.get(id);
  }

  /** The documents above one, the outermost first. */
  path(id: string): DocumentSummary[] {
    const path: DocumentSummary[] = [];
    for (let at = this.document(id); at !== undefined && path.length <= this.size;) {
      at = this.document(at.parentId);
      if (at !== undefined) path.unshift(at);
    }
    return path;
  }

  /** The rows in reading order, without what is below a closed one. */
  rows(closed: ReadonlySet<string>): DocumentRow[] {
    const rows: DocumentRow[] = [];
    const stack = rowsBelow(undefined, [...(this.#below.get('') ?? []), ...this.#nodes]);
    for (let row = stack.pop(); row !== undefined; row = stack.pop()) {
      const below = this.#below.get(row.id) ?? [];
      if (below.length > 0) row.expanded = !closed.has(row.id);
      rows.push(row);
      if (row.expanded) stack.push(...rowsBelow(row, below));
    }
    return rows;
  }
}

/** The rows of documents, or of nodes by their ids, the last one first. */
function rowsBelow(parent: DocumentRow | undefined, below: readonly (DocumentSummary | string)[]): DocumentRow[] {
  const rows = below.map((one, i) => ({
    id: typeof one === 'string' ? nodeRow(one) : one.documentId,
    parentId: parent?.id,
    level: (parent?.level ?? 0) + 1,
    place: i + 1,
    siblings: below.length,
    document: typeof one === 'string' ? undefined : one,
    nodeId: typeof one === 'string' ? one : (one.nodeId ?? ''),
  }));
  return rows.reverse();
}

/** `Iteration 2` comes before `Iteration 10`. */
const names = new Intl.Collator('en', { numeric: true });
