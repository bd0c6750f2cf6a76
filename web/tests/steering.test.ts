import { create } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { ModelProfile, ResultKind, RunStatus } from '../src/gen/treeagent/v1/common_pb';
import { EventSchema, type Event } from '../src/gen/treeagent/v1/events_pb';
import { CommandPreviewSchema } from '../src/gen/treeagent/v1/steering_pb';
import type { GraphNode, Plan } from '../src/lib/projection/model';
import { NO_USAGE } from '../src/lib/projection/model';
import { Projection } from '../src/lib/projection/projection';
import type { Action, Outcome, Sent } from '../src/lib/steering/actions';
import { checkLimit, current } from '../src/lib/budgets';
import { limitsOf, SUBTREE_LIMITS, toChange, toSubtreeBudget } from '../src/lib/steering/budgets';
import { forkEdits, noEdits } from '../src/lib/steering/fork-edits';
import { guidanceProblem } from '../src/lib/steering/guidance';
import { offers, pausedBy } from '../src/lib/steering/offers';
import {
  addBand,
  addStep,
  changeBand,
  changeStep,
  draftOf,
  draftProblem,
  isSameDraft,
  moveBand,
  moveStep,
  nextPlace,
  placeOf,
  removeBand,
  removeStep,
  toPlan,
  type Draft,
} from '../src/lib/steering/plan-draft';
import { previewWords } from '../src/lib/steering/preview';
import { commandWords } from '../src/lib/steering/words';
import { marksOf } from '../src/lib/status';
import type { CommandFlow as Flow } from '../src/lib/steering/flow.svelte';

const node = (id: string, more: Partial<GraphNode> = {}): GraphNode => ({
  id,
  title: id,
  reason: '',
  successCriteria: [],
  status: 'waiting',
  role: 'planner',
  depth: 0,
  artifacts: [],
  usage: NO_USAGE,
  subtreeUsage: NO_USAGE,
  createdAt: 0,
  ...more,
});

const step = (stepId: string, status: Plan['bands'][number]['steps'][number]['status'] = 'pending') => ({
  stepId,
  title: stepId,
  reason: '',
  successCriteria: ['x'],
  status,
});
const PLAN: Plan = {
  planId: 'p',
  version: 1,
  summary: 'three bands',
  bands: [
    { index: 0, goal: 'over', parallelizable: true, steps: [step('a', 'completed')] },
    { index: 1, goal: 'now', parallelizable: false, steps: [step('b', 'running'), step('c'), step('d')] },
    { index: 2, goal: 'later', parallelizable: true, steps: [step('e'), step('f')] },
    { index: 3, goal: 'last', parallelizable: true, steps: [step('g')] },
  ],
};
const shape = (draft: Draft): string =>
  draft.bands.map((band) => band.steps.map((s) => s.stepId || '+').join('')).join(' ');

describe('the words of a command', () => {
  const words = (body: Event['body']): string | undefined => commandWords(create(EventSchema, { body } as never).body);

  it('say who did what', () => {
    expect(words({ case: 'nodePaused', value: { author: 'ann', inFlight: ['x'] } as never })).toBe(
      'paused by ann; 1 call in flight still ends',
    );
    expect(words({ case: 'nodeResumed', value: {} as never })).toBe('resumed by a user');
    expect(
      words({ case: 'guidanceAdded', value: { author: 'ann', text: 'mind\nthe gap', subtree: true } as never }),
    ).toBe('guidance by ann for the whole subtree: mind the gap');
    expect(words({ case: 'nodeStopped', value: { author: 'ann', discard: true } as never })).toBe(
      'stopped by ann; the existing results are discarded',
    );
    expect(
      words({ case: 'nodeReopened', value: { author: 'ann', again: true, generation: 2, model: 'offline' } as never }),
    ).toBe('to be done again by ann (generation 2), with offline');
    expect(words({ case: 'nodeReopened', value: { author: 'ann', generation: 1 } as never })).toBe(
      'reopened by ann, waits for a child (generation 1)',
    );
    expect(words({ case: 'planEdited', value: { author: 'ann', summary: '1 kept' } as never })).toBe(
      'plan edited by ann: 1 kept',
    );
    expect(
      words({
        case: 'budgetSet',
        value: { author: 'ann', change: { maxTokens: 0n, maxCostMicros: 2_000_000n, maxNodes: 9 } } as never,
      }),
    ).toBe('budget set by ann: no limit of tokens, cost $2.00, nodes 9');
    expect(
      words({
        case: 'runForked',
        value: {
          author: 'ann',
          sourceRunId: '0123456789',
          atSeq: 7n,
          edits: [{ edit: { case: 'model', value: 'offline' } }],
        } as never,
      }),
    ).toBe('forked by ann from run 01234567 after event 7: model offline');
    expect(words({ case: 'callStopped', value: { reason: 'guidance' } as never })).toBe(
      'call stopped because of guidance',
    );
    expect(words({ case: 'scratchpadLinked', value: {} as never })).toBeUndefined();
  });

  it('say what a preview holds', () => {
    const preview = create(CommandPreviewSchema, {
      nodeCount: 3,
      calls: { plan: 1, execute: 5, aggregate: 1 },
      reusedNodes: 41,
      tokens: 12_000n,
      costMicros: 120_000n,
      stoppedCalls: 1,
    });
    expect(previewWords('retry', preview)).toBe(
      'Re-runs 3 nodes, stops 1 call in flight, about 7 calls (1 plan, 5 execute, 1 aggregate), about 12,000 tokens, about $0.120; reuses 41.',
    );
    expect(previewWords('pause', create(CommandPreviewSchema, { nodeCount: 1 }))).toBe(
      'Concerns 1 node, no calls; reuses 0.',
    );
  });
});

describe('the marks and the commands of a node', () => {
  const graph = Projection.fromSnapshot({
    runId: 'r',
    seq: 1,
    status: 'running',
    partial: false,
    nodes: [
      node('root'),
      node('a', { parentId: 'root', depth: 1, paused: true }),
      node('b', { parentId: 'a', depth: 2, status: 'executing' }),
      node('c', { parentId: 'root', depth: 1, status: 'completed', generation: 2 }),
    ],
  });

  it('follow from the node and those above it', () => {
    expect(graph.pauses).toBe(1);
    expect(graph.nodes.map((n) => pausedBy(graph, n)?.id)).toEqual([undefined, 'a', 'a', undefined]);
    expect(graph.nodes.map((n) => marksOf(n, pausedBy(graph, n) !== undefined).map((m) => m.label))).toEqual([
      [],
      ['Paused'],
      ['Paused above'],
      ['Reopened 2 times'],
    ]);
    expect(graph.nodes.map((n) => offers(graph, n))).toEqual([
      ['pause', 'guide', 'stop', 'budget'],
      ['resume', 'guide', 'stop', 'budget'],
      ['pause', 'guide', 'stop', 'budget'],
      ['retry'],
    ]);
    expect(offers(graph, node('x', { parentId: 'root', plan: PLAN }))).toContain('plan');
    expect(offers(graph, node('x', { status: 'cancelled', message: 'budget:maxTokens' }))).toEqual(['retry', 'budget']);
    expect(offers(graph, node('x', { status: 'completed', plan: PLAN }))).toEqual(['retry', 'plan']);
    expect(offers(graph, node('x', { stopped: true, plan: PLAN }))).toEqual(['pause', 'guide']);
  });
});

describe('the projection of commands', () => {
  it('marks, unmarks and reopens nodes', () => {
    const graph = new Projection('r');
    let seq = 0n;
    const apply = (body: unknown): GraphNode => {
      graph.applyEvent(create(EventSchema, { runId: 'r', seq: ++seq, nodeId: 'n', body } as never));
      return graph.node('n')!;
    };
    apply({ case: 'nodeCreated', value: { title: 't' } });
    expect(apply({ case: 'nodePaused', value: {} }).paused).toBe(true);
    expect(graph.pauses).toBe(1);
    expect('paused' in apply({ case: 'nodeResumed', value: {} })).toBe(false);
    expect(apply({ case: 'nodeStopped', value: {} }).stopped).toBe(true);
    apply({ case: 'nodePaused', value: {} });
    expect('paused' in apply({ case: 'nodeFailed', value: { error: 'e' } })).toBe(false);
    expect(graph.pauses).toBe(0);
    const again = apply({ case: 'nodeReopened', value: { generation: 1, again: true } });
    expect(again).toMatchObject({ status: 'waiting', generation: 1, artifacts: [] });
    for (const gone of ['stopped', 'error', 'endedAt', 'result', 'plan']) expect(gone in again).toBe(false);
    expect(graph.stats.byStatus.waiting).toBe(1);
    apply({ case: 'runStatus', value: { status: RunStatus.COMPLETED, partial: true } });
    apply({ case: 'runForked', value: {} });
    expect([graph.status, graph.partial]).toEqual(['completed', true]);
    apply({ case: 'runForked', value: { goesOn: true } });
    expect([graph.status, graph.partial]).toEqual(['running', false]);
  });
});

describe('a plan that is edited', () => {
  const draft = draftOf(PLAN);

  it('locks what has begun', () => {
    expect(draft.bands.map((b) => [b.begun, b.over])).toEqual([
      [true, true],
      [true, false],
      [false, false],
      [false, false],
    ]);
    expect(draft.bands.flatMap((b) => b.steps.filter((s) => s.locked).map((s) => s.stepId))).toEqual(['a', 'b']);
    expect(removeStep(draft, { band: 1, step: 0 })).toBe(draft);
    expect(removeBand(draft, 1)).toBe(draft);
    expect(changeStep(draft, { band: 1, step: 0 }, { title: 'z' }).bands[1]!.steps[0]!.title).toBe('b');
    expect(changeBand(draft, 1, { goal: 'z' }).bands[1]!.goal).toBe('now');
    expect(moveStep(draft, { band: 1, step: 0 }, { band: 2, step: 0 })).toBeUndefined();
    expect(moveStep(draft, { band: 2, step: 0 }, { band: 0, step: 0 })).toBeUndefined();
    expect(moveBand(draft, 2, -1)).toBe(draft);
    expect(isSameDraft(addStep(draft, 0), draft)).toBe(true);
  });

  it('moves steps within a band and across bands, never before one that has begun', () => {
    expect(shape(moveStep(draft, { band: 1, step: 2 }, { band: 1, step: 0 })!)).toBe('a bdc ef g');
    expect(shape(moveStep(draft, { band: 2, step: 1 }, { band: 1, step: 1 })!)).toBe('a bfcd e g');
    expect(shape(moveStep(draft, { band: 3, step: 0 }, { band: 2, step: 2 })!)).toBe('a bcd efg');
    const by = (key: string, delta: 1 | -1): string => {
      const from = placeOf(draft, key)!;
      const to = nextPlace(draft, from, delta);
      return to === undefined ? 'stays' : shape(moveStep(draft, from, to)!);
    };
    expect(['c', 'd', 'e', 'f', 'g'].map((key) => by(key, -1))).toEqual([
      'stays',
      'a bdc ef g',
      'a bcde f g',
      'a bcd fe g',
      'a bcd efg',
    ]);
    expect(['c', 'd', 'f', 'g'].map((key) => by(key, 1))).toEqual(['a bdc ef g', 'a bc def g', 'a bcd e fg', 'stays']);
    expect(shape(moveBand(draft, 2, 1))).toBe('a bcd g ef');
  });

  it('adds, changes and removes, and becomes the whole plan', () => {
    let edited = removeStep(removeStep(draft, { band: 2, step: 0 }), { band: 2, step: 0 });
    expect(shape(edited)).toBe('a bcd g');
    edited = addBand(addStep(edited, 1));
    expect(shape(edited)).toBe('a bcd+ g +');
    expect(draftProblem(edited)).toBe('Every step needs a title.');
    edited = changeStep(edited, { band: 1, step: 3 }, { title: ' new ', criteria: 'one\n\n two ' });
    edited = changeStep(edited, { band: 3, step: 0 }, { title: 'last' });
    expect(draftProblem(edited)).toBe('');
    const plan = toPlan(edited);
    expect(plan.bands![1]!.steps!.map((s) => [s.stepId, s.title, s.successCriteria])).toEqual([
      ['b', 'b', ['x']],
      ['c', 'c', ['x']],
      ['d', 'd', ['x']],
      ['', 'new', ['one', 'two']],
    ]);
    expect(draftProblem({ ...draft, summary: ' ' })).toBe('The plan needs a summary.');
    expect(draftProblem({ ...draft, bands: [] })).toBe('A plan needs at least one step.');
  });
});

describe('what a step returns, and its model', () => {
  it('are kept, offered and sent', () => {
    const [band] = PLAN.bands.slice(2, 3);
    const plan = {
      ...PLAN,
      bands: [
        {
          ...band!,
          steps: [{ ...band!.steps[0]!, deliverable: 'hybrid', profile: 'powerful' }, { ...band!.steps[1]! }],
        },
      ],
    } as typeof PLAN;
    const sent = (draft: ReturnType<typeof draftOf>) =>
      toPlan(draft).bands![0]!.steps!.map((s) => [s.deliverable, s.profile]);
    const draft = draftOf(plan);
    expect(sent(draft)).toEqual([
      [ResultKind.HYBRID, ModelProfile.POWERFUL],
      [undefined, undefined],
    ]);
    const changed = changeStep(
      changeStep(draft, { band: 0, step: 0 }, { deliverable: '', profile: 'fast' }),
      { band: 0, step: 1 },
      { deliverable: 'json' },
    );
    expect(sent(changed)).toEqual([
      [undefined, ModelProfile.FAST],
      [ResultKind.JSON, undefined],
    ]);
    expect(isSameDraft(changed, draft)).toBe(false);
  });

  it('are part of the graph', () => {
    const graph = new Projection('r');
    let seq = 0n;
    const apply = (body: unknown) =>
      graph.applyEvent(create(EventSchema, { runId: 'r', seq: ++seq, nodeId: 'n', body } as never));
    apply({ case: 'nodeCreated', value: { title: 't' } });
    apply({ case: 'planCreated', value: { planId: 'p', version: 1 } });
    apply({ case: 'planBandCreated', value: { planId: 'p', bandIndex: 0, stepIds: ['a', 'b'] } });
    apply({
      case: 'stepCreated',
      value: { stepId: 'a', title: 'a', deliverable: ResultKind.JSON, profile: ModelProfile.FAST },
    });
    apply({ case: 'stepCreated', value: { stepId: 'b', stepIndex: 1, title: 'b' } });
    const [a, b] = graph.node('n')!.plan!.bands[0]!.steps;
    expect([a!.deliverable, a!.profile]).toEqual(['json', 'fast']);
    expect('deliverable' in b! || 'profile' in b!).toBe(false);
  });
});

describe('budgets and edits of a fork', () => {
  it('are checked and converted', () => {
    const limits = limitsOf(true);
    const cost = limits.find((l) => l.key === 'maxCostMicros')!;
    const nodes = limits.find((l) => l.key === 'maxNodes')!;
    expect([checkLimit(cost, '0'), checkLimit(cost, '1.5'), checkLimit(nodes, '')]).toEqual(['', '', '']);
    expect(checkLimit(nodes, '0')).toContain('whole number from 1');
    expect(checkLimit(SUBTREE_LIMITS[0]!, '0')).not.toBe('');
    expect(toChange(limits, { maxCostMicros: '1.5', maxNodes: '7', maxWallClockMs: '2' })).toEqual({
      maxCostMicros: 1_500_000n,
      maxNodes: 7,
      maxWallClockMs: 120_000n,
    });
    expect([toChange(limits, {}), toChange(limits, { maxNodes: 'many' }), toSubtreeBudget({ maxTokens: '9' })]).toEqual(
      [undefined, undefined, { maxTokens: 9n }],
    );
    expect(current(cost, { maxCostMicros: 2_500_000n })).toBe('2.5');
    expect(guidanceProblem('ä'.repeat(4097))).toContain('8194 bytes');
  });

  it('come in order, budgets first', () => {
    expect(forkEdits(noEdits(), 'n')).toEqual([]);
    expect(forkEdits({ ...noEdits(), onNode: 'guide' }, 'n')).toBeUndefined();
    const all = forkEdits(
      {
        ...noEdits(),
        onNode: 'retry',
        guidance: 'g',
        nodeModel: 'm',
        nodeLimits: { maxTokens: '5' },
        model: 'all',
        limits: { maxNodes: '3' },
      },
      'n',
    );
    expect(all).toEqual([
      { edit: { case: 'budget', value: { nodeId: '', change: { maxNodes: 3 } } } },
      { edit: { case: 'model', value: 'all' } },
      { edit: { case: 'retry', value: { nodeId: 'n', guidance: 'g', model: 'm', budget: { maxTokens: 5n } } } },
    ]);
    expect(forkEdits({ ...noEdits(), onNode: 'guide', guidance: 'g' }, undefined)).toEqual([]);
    expect(forkEdits({ ...noEdits(), onNode: 'budget' }, 'n')).toBeUndefined();
    const raised = forkEdits({ ...noEdits(), onNode: 'budget', nodeChange: { maxTokens: '0' } }, 'n');
    expect(raised).toEqual([{ edit: { case: 'budget', value: { nodeId: 'n', change: { maxTokens: 0n } } } }]);
    expect(forkEdits({ ...noEdits(), onNode: 'plan' }, 'n')).toBeUndefined();
    const plan = toPlan(draftOf(PLAN));
    expect(forkEdits({ ...noEdits(), onNode: 'plan' }, 'n', plan)).toEqual([
      { edit: { case: 'plan', value: { nodeId: 'n', plan } } },
    ]);
  });
});

describe('the way of an action', () => {
  let CommandFlow: typeof Flow;
  beforeAll(async () => {
    vi.stubGlobal('sessionStorage', { getItem: () => null, setItem: () => undefined });
    ({ CommandFlow } = await import('../src/lib/steering/flow.svelte'));
  });
  const PAUSE: Action = { kind: 'pause', nodeId: '', now: false };

  /** A flow that answers previews with increasing seqs, and confirmations as `answers` say. */
  function flow(...answers: (Error | number)[]) {
    const sent: Sent[] = [];
    let seq = 10n;
    const send = async (_: Action, how: Sent): Promise<Outcome> => {
      sent.push(how);
      const empty = { forkRunId: undefined, changedDocuments: { count: 0, ids: [] } };
      if (how.validateOnly) return { ...empty, seq: 0, preview: create(CommandPreviewSchema, { seq: seq++ }) };
      const answer = answers.shift()!;
      if (answer instanceof Error) throw answer;
      return { ...empty, seq: answer, preview: undefined };
    };
    return { sent, flow: new CommandFlow(send) };
  }
  const ready = (of: Flow): Promise<void> => vi.waitUntil(() => of.phase === 'ready').then(() => undefined);

  it('is previewed, and confirmed with the seq of the preview', async () => {
    const { sent, flow: way } = flow(12);
    way.show(PAUSE);
    await ready(way);
    expect(await way.confirm()).toMatchObject({ seq: 12 });
    expect(sent).toMatchObject([{ validateOnly: true }, { validateOnly: false, expectedSeq: 10n }]);
    expect(sent[0]).not.toHaveProperty('requestId');
    expect(sent[1]!.requestId).toMatch(/^[0-9a-f-]{36}$/);
    expect(way.phase).toBe('done');
  });

  it('is repeated with the same request id when no answer came, whatever the form says then', async () => {
    const { sent, flow: way } = flow(new ConnectError('no driver answered', Code.Unavailable), 12);
    way.show(PAUSE);
    await ready(way);
    expect(await way.confirm()).toBeUndefined();
    expect(way.phase).toBe('unanswered');
    way.show({ ...PAUSE, now: true });
    expect(way.phase).toBe('unanswered');
    expect(await way.confirm()).toMatchObject({ seq: 12 });
    expect(sent[2]).toEqual(sent[1]);
  });

  it('is previewed again when something came first, and then is another command', async () => {
    const { sent, flow: way } = flow(new ConnectError('node x has changed with event 11', Code.Aborted), 12);
    way.show(PAUSE);
    await ready(way);
    expect(await way.confirm()).toBeUndefined();
    expect([way.phase, way.overtaken, way.why?.detail]).toEqual(['ready', 10n, 'node x has changed with event 11']);
    expect(await way.confirm()).toMatchObject({ seq: 12 });
    expect(sent[3]).toMatchObject({ expectedSeq: 11n });
    expect(sent[3]!.requestId).not.toBe(sent[1]!.requestId);
  });

  it('goes back to the form when it is refused', async () => {
    const { flow: way } = flow(
      new ConnectError('plan.bands[0].steps[1].title: must not be empty', Code.InvalidArgument),
    );
    way.show(PAUSE);
    await ready(way);
    expect(await way.confirm()).toBeUndefined();
    expect([way.phase, way.why?.field]).toEqual(['form', 'plan.bands[0].steps[1].title']);
    await way.again();
    expect([way.phase, way.why]).toEqual(['ready', undefined]);
  });
});
