import { beforeEach, describe, expect, it, vi } from 'vitest';
import { filterNodes } from '../src/lib/filter';
import type { GraphNode } from '../src/lib/projection/model';

const getDocument = vi.fn();
vi.mock('../src/lib/api/client', () => ({ documents: { getDocument } }));
const { Scratchpads } = await import('../src/lib/scratchpads.svelte');

const long = 'x'.repeat(200);
const node = (id: string, tail: string | undefined): GraphNode =>
  ({ id, title: id, status: 'completed', scratchpadDocId: `doc-${id}`, scratchpadTail: tail }) as GraphNode;
const search = (nodes: GraphNode[], query: string, bodies: ReadonlyMap<string, string>): number[] => [
  ...filterNodes(nodes, { query, quick: 'all' }, bodies),
];

describe('the search in scratchpads', () => {
  beforeEach(() => {
    getDocument.mockReset();
    getDocument.mockImplementation(({ documentId }: { documentId: string }) =>
      Promise.resolve({ document: { body: `Tides turn at noon. ${documentId} ${long}` } }),
    );
  });

  it('finds text before the end that events carry', async () => {
    const nodes = [node('a', long), node('b', 'short')];
    const scratchpads = new Scratchpads();
    expect(search(nodes, 'tides turn', scratchpads.bodies)).toEqual([]);
    scratchpads.read(nodes);
    await vi.waitFor(() => expect(search(nodes, 'tides turn', scratchpads.bodies)).toEqual([0]));
    expect(getDocument).toHaveBeenCalledTimes(1);
  });

  it('reads a scratchpad again only when it has grown', async () => {
    const scratchpads = new Scratchpads();
    scratchpads.read([node('a', long)]);
    await vi.waitFor(() => expect(scratchpads.version).toBe(1));
    scratchpads.read([node('a', long)]);
    expect(getDocument).toHaveBeenCalledTimes(1);
    scratchpads.read([node('a', `${long}y`)]);
    await vi.waitFor(() => expect(scratchpads.version).toBe(2));
  });

  it('reads a few at a time, and retries those that could not be read', async () => {
    let open = 0;
    let most = 0;
    getDocument.mockImplementation(async () => {
      most = Math.max(most, (open += 1));
      await Promise.resolve();
      open -= 1;
      throw new Error('gone');
    });
    const nodes = Array.from({ length: 50 }, (_, i) => node(String(i), long));
    const scratchpads = new Scratchpads();
    scratchpads.read(nodes);
    await vi.waitFor(() => expect(getDocument).toHaveBeenCalledTimes(50));
    expect(most).toBe(4);
    await vi.waitFor(() => {
      scratchpads.read(nodes);
      expect(getDocument.mock.calls.length).toBeGreaterThan(50);
    });
  });
});
