import { afterEach, describe, expect, it, vi } from 'vitest';
import { randomUuid, RequestIds } from '../src/lib/request-id';

afterEach(() => vi.unstubAllGlobals());

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

describe('request ids', () => {
  it('are UUIDs, also where crypto.randomUUID is missing', () => {
    expect(randomUuid()).toMatch(UUID);
    const { crypto } = globalThis;
    vi.stubGlobal('crypto', { getRandomValues: (bytes: Uint8Array<ArrayBuffer>) => crypto.getRandomValues(bytes) });
    const ids = Array.from({ length: 1000 }, randomUuid);
    for (const id of ids) expect(id).toMatch(UUID);
    expect(new Set(ids).size).toBe(1000);
  });

  it('are the same for the same content, and of this form alone', () => {
    const form = new RequestIds();
    const first = form.for({ objective: 'a', maxTokens: 5n });
    const changed = form.for({ objective: 'b', maxTokens: 5n });
    expect(changed).not.toBe(first);
    expect(form.for({ objective: 'b', maxTokens: 6n })).not.toBe(changed);
    expect(form.for({ objective: 'a', maxTokens: 5n })).toBe(first);
    expect(new RequestIds().for({ objective: 'a', maxTokens: 5n })).not.toBe(first);
  });
});
