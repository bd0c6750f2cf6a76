// A document as it is written, over one stream that is taken up again where its text ended.
//
// Only where all streams of a page share one connection: over HTTP/1.1 each takes one of the six that a browser allows
// an origin, and the run's own stream is the one that a page may hold.

import type { DocumentSummary, WatchDocumentResponse } from '../../gen/treeagent/v1/document_service_pb';
import { failure, type Failure } from '../api/client';

export type OpenDocument = (afterBytes: bigint, signal: AbortSignal) => AsyncIterable<WatchDocumentResponse>;

export interface DocumentReader {
  /** The document so far. */
  text(body: string, summary: DocumentSummary | undefined): void;
  /** Trying again would not help. */
  failed(why: Failure): void;
}

const FIRST_RETRY_MS = 300;
const LAST_RETRY_MS = 10_000;

/** True when this page came over a connection that carries many streams. */
export function multiplexed(): boolean {
  const [page] = performance.getEntriesByType('navigation') as PerformanceNavigationTiming[];
  return page?.nextHopProtocol === 'h2' || page?.nextHopProtocol === 'h3';
}

/** What a document's stream has told so far. */
export class DocumentText {
  body = '';
  /** Where the text ends, in bytes counted from the first that the document ever had. */
  end = 0;
  summary: DocumentSummary | undefined;

  /** Takes a message in; true when there is more to read now. */
  take({ message }: WatchDocumentResponse): boolean {
    if (message.case === 'document') this.summary = message.value;
    if (message.case !== 'text') return message.case === 'document';
    const offset = Number(message.value.offset);
    // A document that outgrew its limit has lost what lies between.
    this.body = offset === this.end ? this.body + message.value.text : message.value.text;
    this.end = offset + new TextEncoder().encode(message.value.text).length;
    return true;
  }
}

/** Reads on until the document's stream ends for good, the signal aborts or trying does not help; silent while the page is hidden. */
export async function followDocument(open: OpenDocument, to: DocumentReader, signal: AbortSignal): Promise<void> {
  const read = new DocumentText();
  let failures = 0;
  while (!signal.aborted) {
    const attempt = new AbortController();
    const stop = (): void => attempt.abort();
    const hide = (): void => void (document.hidden && stop());
    signal.addEventListener('abort', stop);
    document.addEventListener('visibilitychange', hide);
    let hinted = false;
    try {
      for await (const message of open(BigInt(read.end), attempt.signal)) {
        failures = 0;
        if (read.take(message)) to.text(read.body, read.summary);
        hinted = message.message.case === 'resumeHint';
      }
      if (!hinted) return;
    } catch (error) {
      if (signal.aborted) return;
      const why = failure(error);
      if (!attempt.signal.aborted) {
        if (why.kind !== 'offline' && why.kind !== 'other') return to.failed(why);
        failures += 1;
      }
    } finally {
      signal.removeEventListener('abort', stop);
      document.removeEventListener('visibilitychange', hide);
    }
    if (document.hidden) await shown(signal);
    else if (failures > 0) await pause(Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** failures), signal);
  }
}

function shown(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener('visibilitychange', done);
      resolve();
    };
    document.addEventListener('visibilitychange', done);
    signal.addEventListener('abort', done);
  });
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => (clearTimeout(timer), resolve()));
  });
}
