// Documents of a run that was made up, with the text that they had at each event.

import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { Code, ConnectError, type ServiceImpl } from '@connectrpc/connect';
import {
  DocumentService,
  DocumentSummarySchema,
  type DocumentSummary,
} from '../src/gen/treeagent/v1/document_service_pb';

export interface Written {
  seq: number;
  text: string;
  /** It took the place of the text before. */
  replaces: boolean;
}

export class MockDocument {
  readonly summary: DocumentSummary;
  readonly written: Written[] = [];

  constructor(summary: MessageInitShape<typeof DocumentSummarySchema>) {
    this.summary = create(DocumentSummarySchema, { updatedAt: timestampFromMs(Date.now()), ...summary });
  }

  write(seq: number, text: string, replaces = false): this {
    this.written.push({ seq, text, replaces });
    this.summary.bytes = BigInt(this.textAt(Infinity)!.length);
    return this;
  }

  /** Undefined before it was created. */
  textAt(seq: number): string | undefined {
    let text: string | undefined;
    for (const part of this.written) if (part.seq <= seq) text = part.replaces ? part.text : (text ?? '') + part.text;
    return text;
  }
}

/** Answers as the gateway does, for `documents` of any run. */
export function documentService(documents: readonly MockDocument[]): Partial<ServiceImpl<typeof DocumentService>> {
  const found = (id: string): MockDocument => {
    const document = documents.find(({ summary }) => summary.documentId === id);
    if (document === undefined) throw new ConnectError(`document_id: there is no document ${id}`, Code.NotFound);
    return document;
  };
  return {
    listDocuments: ({ runId, pageSize, pageToken }) => {
      const all = documents.filter(({ summary }) => summary.runId === runId).map(({ summary }) => summary);
      const from = Number(pageToken || '0');
      const to = from + (pageSize || 100);
      return { documents: all.slice(from, to), nextPageToken: to < all.length ? String(to) : '' };
    },
    getDocument: ({ documentId, atSeq }) => {
      const document = found(documentId);
      const body = document.textAt(atSeq === undefined ? Infinity : Number(atSeq));
      if (body === undefined) throw new ConnectError(`document_id: ${documentId} did not exist`, Code.NotFound);
      return { document: { summary: { ...document.summary, bytes: BigInt(body.length) }, body } };
    },
    listDocumentVersions: ({ documentId }) => {
      const document = found(documentId);
      const versions = document.written.map(({ seq, replaces }) => ({
        seq: BigInt(seq),
        bytes: BigInt(document.textAt(seq)!.length),
        replaces,
        createdAt: timestampFromMs(Date.now()),
      }));
      return { versions };
    },
  };
}
