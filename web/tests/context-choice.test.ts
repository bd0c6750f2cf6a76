import { describe, expect, it, vi } from 'vitest';
import { create } from '@bufbuild/protobuf';
import { RunContextSchema, Scope } from '../src/gen/treeagent/v1/common_pb';
import { ProjectSchema } from '../src/gen/treeagent/v1/project_service_pb';
import {
  GLOBAL,
  isSame,
  isWhole,
  keptIds,
  MOST_PROJECTS,
  noteRecent,
  recentFirst,
  togglePinned,
  toggled,
  toRequest,
  type Choice,
} from '../src/lib/context-choice';

const project = (id: string) => ({ id, name: id.toUpperCase() });
const of = (...ids: string[]): Choice => ({ kind: 'project', projects: ids.map(project) });

describe('the choice of a context', () => {
  it('becomes a context of as many projects as were chosen', () => {
    expect(toRequest(GLOBAL)).toEqual({ scope: Scope.GLOBAL, projectIds: [] });
    expect(toRequest(of('a'))).toEqual({ scope: Scope.PROJECT, projectIds: ['a'] });
    expect(toRequest(of('a', 'b'))).toEqual({ scope: Scope.MULTI_PROJECT, projectIds: ['a', 'b'] });
    // Projects that were chosen before do not count in global context.
    expect(toRequest({ ...of('a'), kind: 'global' })).toEqual({ scope: Scope.GLOBAL, projectIds: [] });
  });

  it('is whole with one project up to the limit', () => {
    const many = (n: number): Choice => of(...Array.from({ length: n }, (_, i) => `p${i}`));
    expect([GLOBAL, of(), of('a'), many(MOST_PROJECTS), many(MOST_PROJECTS + 1)].map(isWhole)).toEqual([
      true,
      false,
      true,
      true,
      false,
    ]);
  });

  it('takes a project and leaves it out again', () => {
    const both = toggled(toggled(GLOBAL, project('a')), project('b'));
    expect(both).toEqual(of('a', 'b'));
    expect(toggled(both, project('a'))).toEqual(of('b'));
  });

  it('is the same as a context whatever the order', () => {
    const context = create(RunContextSchema, { scope: Scope.MULTI_PROJECT, projectIds: ['b', 'a'] });
    expect(isSame(of('a', 'b'), context)).toBe(true);
    expect(isSame(of('a'), context)).toBe(false);
    expect(isSame(GLOBAL, undefined)).toBe(true);
    expect(isSame(GLOBAL, context)).toBe(false);
  });
});

it('projects of recent contexts come first', () => {
  const list = ['a', 'b', 'c', 'd'].map((projectId) => create(ProjectSchema, { projectId }));
  const ids = recentFirst(list, [['d', 'b'], ['gone']]).map((p) => p.projectId);
  expect(ids).toEqual(['d', 'b', 'a', 'c']);
});

it('contexts are kept: recent ones four at the most, pinned ones until they are unpinned', () => {
  const stored = new Map<string, string>();
  vi.stubGlobal('localStorage', {
    getItem: (key: string) => stored.get(key) ?? null,
    setItem: (key: string, value: string) => stored.set(key, value),
  });
  for (const id of ['a', 'b', 'c', 'd', 'e', 'c']) noteRecent(of(id));
  noteRecent(GLOBAL);
  expect(keptIds('recent')).toEqual([['c'], ['e'], ['d'], ['b']]);
  togglePinned(of('a', 'b'));
  togglePinned(of('c'));
  expect(keptIds('pinned')).toEqual([['a', 'b'], ['c']]);
  togglePinned(of('b', 'a'));
  expect(keptIds('pinned')).toEqual([['c']]);
  stored.set('tree-agent.pinned-contexts', '[[1], "x", ["p"]]');
  expect(keptIds('pinned')).toEqual([['p']]);
});
