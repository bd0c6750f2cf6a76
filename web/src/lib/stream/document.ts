// A document while it is written, over one stream that resumes where the text ended.
//
// Use it only where all streams of a page share one connection. Over HTTP/1.1 a browser allows six connections per
// origin, and the run's own stream is the one that a page may hold.

import type { DocumentSummary, WatchDocumentResponse } from '../../gen/treeagent/v1/document_service_pb';
import type { Failure } from '../api/failure';
import { follow } from './follow';

export type OpenDocument = (afterBytes: bigint, signal: AbortSignal) => AsyncIterable<WatchDocumentResponse>;

export interface DocumentReader {
  /** The document so far. */
  text(body: string, summary: DocumentSummary | undefined): void;
  /** Trying again would not help. */
  failed(why: Failure): void;
}

/** True when the page came over HTTP/2 or 3, where streams share a connection. */
export function multiplexed(): boolean {
  const [page] = performance.getEntriesByType('navigation') as PerformanceNavigationTiming[];
  return page?.nextHopProtocol === 'h2' || page?.nextHopProtocol === 'h3';
}

/** What a document's stream has sent so far. */
export class DocumentText {
  body = '';
  /** Where the text ends: a byte offset in everything that was ever written to the document. */
  end = 0;
  summary: DocumentSummary | undefined;

  /** Takes a message in; true when there is more to read now. */
  take({ message }: WatchDocumentResponse): boolean {
    if (message.case === 'document') this.summary = message.value;
    if (message.case !== 'text') return message.case === 'document';
    const offset = Number(message.value.offset);
    // A document that outgrew its limit has lost the bytes in between. One that was replaced begins anew.
    this.body = offset === this.end && !message.value.replaces ? this.body + message.value.text : message.value.text;
    this.end = offset + new TextEncoder().encode(message.value.text).length;
    return true;
  }
}

/** Reads on until the document's stream ends for good, the signal aborts, or trying again does not help. */
export async function followDocument(open: OpenDocument, to: DocumentReader, signal: AbortSignal): Promise<void> {
  const read = new DocumentText();
  await follow<WatchDocumentResponse>(
    {
      ends: true,
      open: (attempt) => open(BigInt(read.end), attempt),
      take: (message) => {
        if (read.take(message)) to.text(read.body, read.summary);
        return message.message.case === 'resumeHint';
      },
      failed: (why) => {
        to.failed(why);
        return false;
      },
    },
    signal,
  );
}
