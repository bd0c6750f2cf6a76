import { create } from '@bufbuild/protobuf';
import { describe, expect, it, vi } from 'vitest';
import {
  DocumentTextSchema,
  WatchDocumentResponseSchema,
  type WatchDocumentResponse,
} from '../src/gen/treeagent/v1/document_service_pb';

vi.mock('../src/lib/api/client', () => ({ failure: () => ({ kind: 'other', title: '', detail: '' }) }));
const { DocumentText } = await import('../src/lib/stream/document');

const say = (message: WatchDocumentResponse['message']): WatchDocumentResponse =>
  create(WatchDocumentResponseSchema, { message });
const text = (offset: number, words: string): WatchDocumentResponse =>
  say({ case: 'text', value: create(DocumentTextSchema, { offset: BigInt(offset), text: words }) });

describe('the text of a document stream', () => {
  it('counts bytes, not characters, so it resumes where the text ended', () => {
    const read = new DocumentText();
    expect(read.take(text(0, 'Gezeiten – שלום'))).toBe(true);
    expect(read.end).toBe(new TextEncoder().encode('Gezeiten – שלום').length);
    read.take(text(read.end, ', und mehr'));
    expect(read.body).toBe('Gezeiten – שלום, und mehr');
  });

  it('begins anew when the text was replaced, also right behind what came before', () => {
    const read = new DocumentText();
    read.take(text(0, 'the old plan'));
    read.take(
      say({
        case: 'text',
        value: create(DocumentTextSchema, { offset: BigInt(read.end), text: 'the new', replaces: true }),
      }),
    );
    expect(read.body).toBe('the new');
    read.take(text(read.end, ' plan'));
    expect(read.body).toBe('the new plan');
    expect(read.end).toBe('the old planthe new plan'.length);
  });

  it('starts again behind a gap, and ignores heartbeats', () => {
    const read = new DocumentText();
    read.take(text(0, 'the beginning'));
    read.take(text(5000, 'the end'));
    expect(read.body).toBe('the end');
    expect(read.end).toBe(5007);
    expect(
      read.take(say({ case: 'heartbeat', value: { $typeName: 'treeagent.v1.DocumentHeartbeat', end: 5007n } })),
    ).toBe(false);
    expect(read.body).toBe('the end');
  });
});
