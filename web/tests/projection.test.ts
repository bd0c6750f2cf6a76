import { create } from '@bufbuild/protobuf';
import { describe, expect, it } from 'vitest';
import { Verdict } from '../src/gen/treeagent/v1/citations_pb';
import {
  AnswerVerifiedSchema,
  ArtifactCitedSchema,
  EventSchema,
  ItemState,
  NodeCreatedSchema,
  OpaqueSchema,
  PlanBandCreatedSchema,
  PlanCreatedSchema,
  PlanDocumentUpdatedSchema,
  RollupUpdatedSchema,
  RunCreatedSchema,
  StepCreatedSchema,
  TaskRefusedSchema,
  type Event,
} from '../src/gen/treeagent/v1/events_pb';
import { describe as describeEvent, EVENT_TYPES, eventJson, eventType } from '../src/lib/events';
import { ReplayError } from '../src/lib/projection/apply';
import { History } from '../src/lib/projection/history';
import { NO_USAGE, plus } from '../src/lib/projection/model';
import { Projection } from '../src/lib/projection/projection';
import { Shape } from '../src/lib/projection/shape';
import { fixtures } from './fixtures';

const all = fixtures();

describe.each(all)('the log "$name"', ({ events, graphs }) => {
  const runId = events[0]!.runId;

  it('gives the graphs of the Rust projection', () => {
    expect(graphs.length).toBeGreaterThan(1);
    for (const expected of graphs) {
      const graph = new Projection(runId);
      graph.applyEvents(events.slice(0, expected.seq));
      expect(graph.snapshot()).toStrictEqual(expected);
    }
  });

  it('gives the same from any snapshot', () => {
    const whole = new Projection(runId);
    whole.applyEvents(events);
    for (const at of [1, 7, events.length >> 1, events.length - 1]) {
      const begin = new Projection(runId);
      begin.applyEvents(events.slice(0, at));
      const rest = Projection.fromSnapshot(begin.snapshot());
      rest.applyEvents(events.slice(at));
      expect(rest.snapshot()).toStrictEqual(whole.snapshot());
      expect(rest.stats).toStrictEqual(whole.stats);
    }
  });

  it('shows at N exactly what a replay of 1..N gives, also while the run continues', () => {
    const base = events.length >> 1;
    const shape = new Shape();
    const head = new Projection(runId, shape);
    head.applyEvents(events.slice(0, base));
    const live = Projection.fromSnapshot(head.snapshot(), new Shape());
    const history = new History(runId, live.shape, base);
    expect(history.stateAt(base)).toBeUndefined();
    history.fill(events.slice(0, base >> 1));
    expect(history.complete).toBe(base >> 1);
    for (const event of events.slice(base)) {
      live.applyEvent(event);
      history.append(event);
    }
    history.fill(events.slice(base >> 1));
    expect(history.complete).toBe(events.length);
    const seqs = events.map((_, i) => (i * 37) % (events.length + 1));
    for (const seq of [0, ...seqs.slice(0, 60), events.length]) {
      const replay = new Projection(runId);
      replay.applyEvents(events.slice(0, seq));
      expect(history.stateAt(seq)!.snapshot()).toStrictEqual(replay.snapshot());
    }
    expect(live.snapshot()).toStrictEqual(history.stateAt(events.length)!.snapshot());
  });

  it('keeps selectors in step with the nodes', () => {
    const graph = new Projection(runId);
    for (const event of events) {
      graph.applyEvent(event);
      const { stats } = graph;
      expect(stats.nodes).toBe(graph.nodes.length);
      expect(Object.values(stats.byStatus).reduce((a, b) => a + b, 0)).toBe(graph.nodes.length);
      for (const [at, node] of graph.nodes.entries())
        expect(node.subtreeUsage).toEqual(
          graph.childrenOf(at).reduce((sum, child) => plus(sum, graph.nodes[child]!.subtreeUsage), node.usage),
        );
    }
    expect(graph.edges.length).toBe(graph.nodes.length - 1);
    expect(graph.activeNodeIds).toEqual([]);
    expect(graph.stats.usage).toEqual(graph.nodes.reduce((sum, node) => plus(sum, node.usage), { ...NO_USAGE }));
    for (const [at, node] of graph.nodes.entries())
      for (const child of graph.childrenOf(at)) expect(graph.nodes[child]!.parentId).toBe(node.id);
  });

  it('refuses a gap, a repeat and another run, without changes', () => {
    const graph = new Projection(runId);
    graph.applyEvents(events.slice(0, 5));
    const before = graph.snapshot();
    expect(() => graph.applyEvent(events[6]!)).toThrow(/contiguous/);
    expect(() => graph.applyEvent(events[4]!)).toThrow(/contiguous/);
    expect(() => graph.applyEvent({ ...events[5]!, runId: 'other' })).toThrow(/run other/);
    expect(() =>
      graph.applyEvent({
        ...events[5]!,
        nodeId: 'none',
        body: { case: 'scratchpadLinked', value: { scratchpadDocId: 'd' } as never },
      }),
    ).toThrow(/no earlier event/);
    expect(graph.snapshot()).toStrictEqual(before);
  });
});

describe('citations', () => {
  const { events } = all.find((fixture) => fixture.events.some((event) => event.body.case === 'artifactCreated'))!;
  const at = events.findIndex((event) => event.body.case === 'artifactCreated');
  const created = events[at]!;
  const cited = (artifactId: string) => {
    const citations = [Verdict.VERIFIED, Verdict.NOT_FOUND, Verdict.VERIFIED].map((verdict) => ({
      claim: 'c',
      quote: 'q',
      documentId: 'd',
      verdict,
    }));
    const counts = { total: 3n, found: 1n, notFound: 1n, doubted: 1n, notChecked: 1n, reasons: ['no source'] };
    const value = create(ArtifactCitedSchema, { artifactId, citations, counts });
    const body = { case: 'artifactCited' as const, value };
    return create(EventSchema, { ...created, seq: created.seq + 1n, body });
  };

  it('are counted at their artifact', () => {
    const { artifactId } = created.body.value as { artifactId: string };
    const graph = new Projection(created.runId);
    graph.applyEvents(events.slice(0, at + 1));
    graph.applyEvent(cited(artifactId));
    const node = graph.snapshot().nodes.find((one) => one.id === created.nodeId)!;
    expect(node.artifacts.at(-1)!.citations).toStrictEqual({
      total: 3,
      found: 1,
      notFound: 1,
      supported: 0,
      doubted: 1,
      notChecked: 1,
      reasons: ['no source'],
    });
    const said = 'Statements: 1 with quotes found in their sources, 1 with quotes not found, 1 not checked (no source)';
    expect(describeEvent(cited(artifactId))).toBe(said);
    expect(Projection.fromSnapshot(graph.snapshot()).snapshot()).toStrictEqual(graph.snapshot());
  });

  it('of an unknown artifact are refused', () => {
    const graph = new Projection(created.runId);
    graph.applyEvents(events.slice(0, at + 1));
    expect(() => graph.applyEvent(cited('none'))).toThrow(/no earlier event/);
  });
});

describe('the verification of an answer', () => {
  const { events } = all.find((fixture) => fixture.events.some((event) => event.body.case === 'nodeResult'))!;
  const at = events.findIndex((event) => event.body.case === 'nodeResult');
  const given = events[at]!;
  const verification = {
    summary: 'Nearly.',
    criteria: [{ criterion: 'It is short', met: true, note: '' }],
    doubts: [{ claim: 'c', reason: 'r' }],
  };
  const verified = create(EventSchema, {
    ...given,
    seq: given.seq + 1n,
    body: { case: 'answerVerified', value: create(AnswerVerifiedSchema, { verification, replanReason: 'too short' }) },
  });

  it('belongs to the node until it returns another answer', () => {
    const graph = new Projection(given.runId);
    graph.applyEvents(events.slice(0, at + 1));
    graph.applyEvent(verified);
    const node = () => graph.snapshot().nodes.find((one) => one.id === given.nodeId)!;
    const criteria = [{ criterion: 'It is short', met: true }];
    expect(node().verification).toStrictEqual({ summary: 'Nearly.', criteria, doubts: [{ claim: 'c', reason: 'r' }] });
    expect(describeEvent(verified)).toBe('1 of 1 criteria met, 1 doubt; asks for another plan: too short');
    graph.applyEvent(create(EventSchema, { ...given, seq: given.seq + 2n }));
    expect('verification' in node()).toBe(false);
  });
});

describe('events of a newer version', () => {
  const { events } = all[0]!;
  const runId = events[0]!.runId;
  const at = 6;

  it.each([
    [
      'with a payload that the server did not know',
      { case: 'opaque' as const, value: create(OpaqueSchema, { payloadJson: '{"x":1}' }) },
    ],
    ['in a field that is unknown here', { case: undefined }],
  ])('%s are kept and change nothing', (_, body) => {
    const newer = create(EventSchema, {
      runId,
      seq: BigInt(at),
      nodeId: 'elsewhere',
      type: 'tree.from_the_future',
      body,
    });
    expect(eventType(newer)).toBe('tree.from_the_future');
    expect(describeEvent(newer)).toBe(body.case === 'opaque' ? '{"x":1}' : '');
    expect(JSON.parse(eventJson(newer))).toMatchObject({ type: 'tree.from_the_future' });
    const graph = new Projection(runId);
    graph.applyEvents(events.slice(0, at - 1));
    const before = graph.snapshot();
    graph.applyEvent(newer);
    expect(graph.snapshot()).toStrictEqual({ ...before, seq: at });
    expect(EVENT_TYPES).not.toContain('tree.opaque');
    // It may have created what later events are about.
    const later = create(EventSchema, {
      runId,
      seq: BigInt(at + 1),
      nodeId: 'elsewhere',
      body: { case: 'nodeFailed', value: { error: 'e' } },
    });
    graph.applyEvent(later);
    expect(graph.snapshot()).toStrictEqual({ ...before, seq: at + 1 });
    const strict = new Projection(runId);
    strict.applyEvents(events.slice(0, at));
    expect(() => strict.applyEvent(later)).toThrow(ReplayError);
  });
});

describe('homework', () => {
  it('says of its tasks, plans and events which iteration and branch they are for', () => {
    const graph = new Projection('r');
    let seq = 0n;
    const event = (nodeId: string, body: Event['body'], parentNodeId?: string) =>
      create(EventSchema, { runId: 'r', seq: ++seq, nodeId, parentNodeId, body });
    const items = [
      { title: 'a', state: ItemState.DONE },
      { title: 'b', state: ItemState.TODO },
    ];
    const events = [
      event('root', { case: 'runCreated', value: create(RunCreatedSchema, { objective: 'o', rootNodeId: 'root' }) }),
      event('root', { case: 'nodeCreated', value: create(NodeCreatedSchema, { title: 'o' }) }),
      event('root', {
        case: 'planCreated',
        value: create(PlanCreatedSchema, { planId: 'p', version: 1, summary: 'look', iteration: 2 }),
      }),
      event('root', { case: 'planBandCreated', value: create(PlanBandCreatedSchema, { planId: 'p', stepIds: ['s'] }) }),
      event('root', {
        case: 'stepCreated',
        value: create(StepCreatedSchema, { stepId: 's', title: 't', branchId: 'east' }),
      }),
      event(
        'task',
        {
          case: 'nodeCreated',
          value: create(NodeCreatedSchema, {
            title: 't',
            depth: 1,
            bandIndex: 0,
            stepId: 's',
            iteration: 2,
            branchId: 'east',
          }),
        },
        'root',
      ),
      event('root', {
        case: 'planDocumentUpdated',
        value: create(PlanDocumentUpdatedSchema, { iteration: 2, items, remaining: ['b'] }),
      }),
      event('root', { case: 'rollupUpdated', value: create(RollupUpdatedSchema, { iteration: 1, summary: 'safe' }) }),
      event('root', {
        case: 'taskRefused',
        value: create(TaskRefusedSchema, { iteration: 2, branchId: 'north', title: 'sound', reason: 'nothing new' }),
      }),
    ];
    graph.applyEvents(events);
    const [root, task] = graph.snapshot().nodes;
    expect(task?.task).toStrictEqual({ iteration: 2, branchId: 'east' });
    expect(root?.task).toBeUndefined();
    expect([root?.plan?.iteration, root?.plan?.bands[0]?.steps[0]?.branchId]).toStrictEqual([2, 'east']);
    expect([events[2]!, ...events.slice(6)].map(describeEvent)).toStrictEqual([
      'iteration 2: look',
      '1 of 2 steps done, 1 still to do',
      'iteration 1: safe',
      'north: sound: nothing new',
    ]);
  });
});
