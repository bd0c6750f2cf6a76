// Leases where the recorded logs have none. The rest is compared with the Rust projection in `projection.test.ts`.

import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { describe, expect, it } from 'vitest';
import { NodeStatus } from '../src/gen/treeagent/v1/common_pb';
import { EventSchema, type Event } from '../src/gen/treeagent/v1/events_pb';
import type { GraphNode, Lease } from '../src/lib/projection/model';
import { Projection } from '../src/lib/projection/projection';
import { leaseRows } from '../src/lib/spending';

/** The log of a root with one node, whose events are a second apart. */
class Log {
  readonly events: Event[] = [];

  constructor() {
    this.add('root', { case: 'nodeCreated', value: { title: 'root' } });
    this.add('n', { case: 'nodeCreated', value: { title: 'n', depth: 1 } });
  }

  /** Adds an event and returns the node after it. */
  add(nodeId: string, body: unknown): GraphNode {
    const seq = this.events.length + 1;
    const parent = nodeId === 'root' ? {} : { parentNodeId: 'root' };
    this.events.push(
      create(EventSchema, {
        runId: 'r',
        seq: BigInt(seq),
        timestamp: timestampFromMs(seq * 1000),
        nodeId,
        ...parent,
        body,
      } as never),
    );
    return this.graph().node('n')!;
  }

  uses(tokens: number): GraphNode {
    return this.add('n', { case: 'usageRecorded', value: { inputTokens: BigInt(tokens) } });
  }

  graph(): Projection {
    const graph = new Projection('r');
    graph.applyEvents(this.events);
    return graph;
  }
}

const works = { case: 'nodeStatus', value: { status: NodeStatus.EXECUTING } };
const set = (change: unknown) => ({ case: 'budgetSet', value: { change } });
const lease = (limits: Lease['limits'], more: Partial<Lease> = {}): Lease => ({
  limits,
  before: { tokens: 0, costMicros: 0, toolCalls: 0 },
  ...more,
});

describe('the lease of a node', () => {
  it('that a person gives counts what was used before, until 0 removes its limits', () => {
    const log = new Log();
    log.add('n', works);
    log.uses(70);
    const node = log.add('n', set({ maxTokens: 100n, maxWallClockMs: 9000n }));
    expect(node.lease).toStrictEqual(
      lease({ maxTokens: 100, maxWallClockMs: 9000 }, { since: 3000, deadline: 12_000 }),
    );
    expect(leaseRows(node)).toEqual([{ name: 'Tokens', text: '70 of 100', part: 0.7 }]);
    expect(log.add('n', set({ maxTokens: 0n })).lease?.limits).toStrictEqual({ maxWallClockMs: 9000 });
    log.add('n', { case: 'budgetExhausted', value: { budget: 'maxWallClockMs' } });
    expect(log.graph().node('n')?.lease?.exhausted).toBe('maxWallClockMs');
    expect(log.add('n', set({ maxWallClockMs: 60_000n })).lease).toStrictEqual(
      lease({ maxWallClockMs: 60_000 }, { since: 3000, deadline: 63_000 }),
    );
  });

  it('counts from a reopening on, also on a page that began after it', () => {
    const log = new Log();
    log.add('n', works);
    log.uses(70);
    log.add('n', { case: 'nodeFailed', value: { error: 'e' } });
    expect(log.add('n', { case: 'nodeReopened', value: { generation: 1, again: true } })).not.toHaveProperty('lease');
    const page = Projection.fromSnapshot(log.graph().snapshot());
    page.learn(log.graph());
    log.uses(30);
    const node = log.add('n', set({ maxTokens: 40n }));
    expect(node.lease).toStrictEqual(
      lease({ maxTokens: 40 }, { since: 6000, before: { tokens: 70, costMicros: 0, toolCalls: 0 } }),
    );
    expect(leaseRows(node)[0]?.text).toBe('30 of 40');
    page.applyEvents(log.events.slice(page.seq));
    expect(page.snapshot()).toStrictEqual(log.graph().snapshot());
  });

  it('ends no later than that of a node above', () => {
    const log = new Log();
    const below = (body: unknown): Lease | undefined => {
      const seq = log.events.length + 1;
      log.events.push(
        create(EventSchema, {
          runId: 'r',
          seq: BigInt(seq),
          timestamp: timestampFromMs(seq * 1000),
          nodeId: 'b',
          parentNodeId: 'n',
          body,
        } as never),
      );
      return log.graph().node('b')!.lease;
    };
    log.add('n', works);
    log.add('n', set({ maxWallClockMs: 5000n }));
    below({ case: 'nodeCreated', value: { title: 'b', depth: 2 } });
    expect(below(set({ maxWallClockMs: 60_000n }))).toStrictEqual(lease({ maxWallClockMs: 60_000 }));
    expect(below(works)).toStrictEqual(lease({ maxWallClockMs: 60_000 }, { since: 7000, deadline: 8000 }));
  });

  it('is no lease where a share of what is above was used up, and gone in a fork', () => {
    const log = new Log();
    log.add('n', works);
    expect(log.add('n', { case: 'budgetExhausted', value: { budget: 'maxTokens' } }).lease).toStrictEqual(
      lease({}, { exhausted: 'maxTokens' }),
    );
    expect(log.add('root', { case: 'runForked', value: {} })).not.toHaveProperty('lease');
    expect(log.add('root', { case: 'budgetExhausted', value: { budget: 'maxTokens' } })).not.toHaveProperty('lease');
    expect(log.add('n', set({ maxTokens: 9n })).lease?.since).toBe(5000);
  });
});
