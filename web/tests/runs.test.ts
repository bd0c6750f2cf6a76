import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { describe, expect, it } from 'vitest';
import { RunStatus, Strategy } from '../src/gen/treeagent/v1/common_pb';
import {
  EstimateRunResponseSchema,
  RunSchema,
  UsageSchema,
  WatchRunsResponseSchema,
  type Run,
} from '../src/gen/treeagent/v1/run_service_pb';
import { checkLabels, toLabels } from '../src/lib/labels';
import { runFilter } from '../src/lib/run-filter';
import { estimateWords } from '../src/lib/new-run';
import { clicked, NEWEST, orderOf, orderParam, sorted } from '../src/lib/run-table';
import { NewestRuns } from '../src/lib/stream/runs';

/** The n-th run that was ever created. */
const run = (n: number, objective = ''): Run =>
  create(RunSchema, { runId: `run-${n}`, objective, createdAt: timestampFromMs(n * 1000) });
const ids = (newest: NewestRuns): string[] => newest.runs.map((r) => r.runId);

type Message = NonNullable<MessageInitShape<typeof WatchRunsResponseSchema>['message']>;
const take = (newest: NewestRuns, message: Message): boolean =>
  newest.take(create(WatchRunsResponseSchema, { message }));
const added = (newest: NewestRuns, ...numbers: number[]): void =>
  numbers.forEach((n) => take(newest, { case: 'added', value: run(n) }));
const caughtUp = (newest: NewestRuns): boolean => take(newest, { case: 'caughtUp', value: { resumeToken: 'here' } });

/** A list of three runs that has received these. */
function begun(...numbers: number[]): NewestRuns {
  const newest = new NewestRuns(3);
  newest.begin();
  added(newest, ...numbers);
  caughtUp(newest);
  return newest;
}

describe('the newest runs', () => {
  it('stand in order, newest first, and are replaced when they change', () => {
    const newest = begun(3, 1);
    added(newest, 4);
    take(newest, { case: 'changed', value: run(3, 'now') });
    expect(ids(newest)).toEqual(['run-4', 'run-3', 'run-1']);
    expect(newest.runs[1]!.objective).toBe('now');
    expect(newest.hasOlder).toBe(false);
  });

  it('include an older run that matches the filters only now, unless others may lie between', () => {
    const all = begun(9, 5);
    added(all, 7, 1);
    expect(ids(all)).toEqual(['run-9', 'run-7', 'run-5']);
    expect(all.hasOlder).toBe(true);
    const some = begun(9, 8, 7, 6);
    added(some, 1);
    take(some, { case: 'removed', value: { runId: 'run-9' } });
    expect(ids(some)).toEqual(['run-8', 'run-7', 'run-6']);
  });

  it('are asked for anew when runs are removed and older ones must move up', () => {
    const newest = begun(9, 8, 7, 6);
    expect(take(newest, { case: 'removed', value: { runId: 'run-9' } })).toBe(false);
    expect(newest.resumeToken).toBe('here');
    expect(take(newest, { case: 'removed', value: { runId: 'run-8' } })).toBe(true);
    expect(newest.resumeToken).toBe('');
    // What was known stays until the newest runs have arrived.
    newest.begin();
    added(newest, 7, 6, 5, 4);
    expect(ids(newest)).toEqual(['run-7', 'run-6']);
    caughtUp(newest);
    expect(ids(newest)).toEqual(['run-7', 'run-6', 'run-5']);
    expect(newest.hasOlder).toBe(true);
  });

  it('go on from the last token, and only a stream from the beginning replaces them', () => {
    const newest = begun(2);
    take(newest, { case: 'heartbeat', value: { resumeToken: 'there' } });
    expect(take(newest, { case: 'resumeHint', value: { resumeToken: 'later', reason: 'age' } })).toBe(true);
    expect(newest.resumeToken).toBe('later');
    newest.begin();
    added(newest, 3);
    caughtUp(newest);
    expect(ids(newest)).toEqual(['run-3', 'run-2']);
  });
});

describe('the filter of the list', () => {
  const filter = (query: string) => {
    const params = new URLSearchParams(query);
    return runFilter((name) => params.get(name) ?? '');
  };

  it('is made from the URL', () => {
    expect(
      filter('status=failed&q=tides&label=team%3Dsea,urgent&model=offline&user=ann&id=01a2&parent=run-1&strategy=tree'),
    ).toEqual({
      statuses: [RunStatus.FAILED],
      objectiveContains: 'tides',
      labels: ['team=sea', 'urgent'],
      model: 'offline',
      userId: 'ann',
      idPart: '01a2',
      parentRunId: 'run-1',
      strategies: [Strategy.TREE],
      projectId: '',
      global: false,
    });
    expect(filter('project=p1')).toMatchObject({ projectId: 'p1', global: false });
    expect(filter('project=global')).toMatchObject({ projectId: '', global: true });
  });

  it('holds whole days of the browser', () => {
    const { createdAfter, createdBefore } = filter('from=2026-11-23&to=2026-11-30');
    expect(createdAfter?.seconds).toBe(BigInt(new Date(2026, 10, 23).getTime() / 1000));
    expect(createdBefore?.seconds).toBe(BigInt(new Date(2026, 11, 1).getTime() / 1000));
    expect(filter('from=yesterday')).not.toHaveProperty('createdAfter');
  });
});

describe('the order of the table', () => {
  const row = (n: number, objective: string, costMicros: number): Run =>
    Object.assign(run(n, objective), { usage: create(UsageSchema, { costMicros: BigInt(costMicros) }) });
  const rows = [row(3, 'b', 0), row(2, 'A', 7), row(1, 'c', 7)];
  const ids = (param: string): string[] => sorted(rows, orderOf(param), 0).map((r) => r.runId);

  it('is that of the server, or of one column, and equal rows stay', () => {
    expect(ids('')).toEqual(['run-3', 'run-2', 'run-1']);
    expect(ids('nonsense')).toEqual(['run-3', 'run-2', 'run-1']);
    expect(ids('started')).toEqual(['run-1', 'run-2', 'run-3']);
    expect(ids('question')).toEqual(['run-2', 'run-3', 'run-1']);
    expect(ids('-cost')).toEqual(['run-2', 'run-1', 'run-3']);
  });

  it('begins with the largest number, and turns round', () => {
    const once = clicked(NEWEST, 'cost');
    expect([orderParam(once), orderParam(clicked(once, 'cost')), orderParam(clicked(NEWEST, 'question'))]).toEqual([
      '-cost',
      'cost',
      'question',
    ]);
    expect(orderParam(NEWEST)).toBe('');
  });
});

describe('an estimate', () => {
  it('says what bounds a run, and what does not', () => {
    const words = (estimate: object, model = '') =>
      estimateWords(create(EstimateRunResponseSchema, { estimate, model }));
    expect(words({ nodes: 85n, planCalls: 100n, executeCalls: 70n, costMicros: 400_000n }, 'm')).toBe(
      'At most 85 nodes, at most 170 calls, at most $0.400 · m',
    );
    expect(words({ nodes: 1n, executeCalls: 1n, costMicros: 0n })).toBe('At most 1 node, at most 1 call');
    expect(words({ nodes: 2n, planCalls: 2n, unlimited: ['maxCostMicros'] })).toContain('no limit on the cost');
    expect(estimateWords(create(EstimateRunResponseSchema, {}))).toBe('');
  });
});

describe('labels', () => {
  it('are read from a text', () => {
    expect(toLabels('team=search, urgent  when=2026-11-23T02:00')).toEqual({
      team: 'search',
      urgent: '',
      when: '2026-11-23T02:00',
    });
    expect(toLabels('')).toEqual({});
  });

  it.each([
    ['a, app.kubernetes.io/name=x_1', ''],
    ['Team=x', 'cannot be a label'],
    ['-a', 'cannot be a label'],
    ['=x', 'cannot be a label'],
    [`${'k'.repeat(64)}=x`, 'cannot be a label'],
    ['a=b=c', 'cannot be the value'],
    [`a=${'v'.repeat(129)}`, 'cannot be the value'],
    ['a=1 a=2', 'given twice'],
    [Array.from({ length: 33 }, (_, i) => `k${i}`).join(' '), 'at most 32'],
  ])('are checked as the server checks them: %j', (text, problem) => {
    if (problem === '') expect(checkLabels(text)).toBe('');
    else expect(checkLabels(text)).toContain(problem);
  });
});
