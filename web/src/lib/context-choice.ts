// The choice of a context, without a server: one of all projects, or of some of them.

import { Scope, type RunContext } from '../gen/treeagent/v1/common_pb';
import type { Project } from '../gen/treeagent/v1/project_service_pb';
import { load, save } from './storage';

export interface Named {
  id: string;
  name: string;
}

export interface Choice {
  kind: 'global' | 'project';
  /**
   * In the order in which they were chosen. Kept while the choice is global, so that nothing is lost by a wrong click.
   */
  projects: Named[];
}

/** Projects that a context may name. The limit is that of the API. */
export const MOST_PROJECTS = 32;

/** Contexts that are offered again. */
const MOST = { recent: 4, pinned: 12 };

export const GLOBAL: Choice = { kind: 'global', projects: [] };

/** True if a run can be started with it. */
export function isWhole(choice: Choice): boolean {
  return choice.kind === 'global' || (choice.projects.length > 0 && choice.projects.length <= MOST_PROJECTS);
}

export function toRequest(choice: Choice): { scope: Scope; projectIds: string[] } {
  const projectIds = choice.kind === 'global' ? [] : choice.projects.map((p) => p.id);
  const scope = projectIds.length === 0 ? Scope.GLOBAL : projectIds.length === 1 ? Scope.PROJECT : Scope.MULTI_PROJECT;
  return { scope, projectIds };
}

export function isGlobal(context: RunContext | undefined): boolean {
  return context === undefined || context.projectIds.length === 0;
}

/** True if the choice leads to this context. The order of projects does not matter. */
export function isSame(choice: Choice, context: RunContext | undefined): boolean {
  const ids = toRequest(choice).projectIds.toSorted();
  const others = (context?.projectIds ?? []).toSorted();
  return ids.length === others.length && ids.every((id, i) => id === others[i]);
}

/** The choice with a project, or without it if it was chosen. */
export function toggled(choice: Choice, project: Named): Choice {
  const rest = choice.projects.filter((p) => p.id !== project.id);
  return { kind: 'project', projects: rest.length < choice.projects.length ? rest : [...rest, project] };
}

type Kept = 'recent' | 'pinned';

/** The ids of the projects of the contexts that this browser keeps: the latest first, or in the order of pinning. */
export function keptIds(kind: Kept): string[][] {
  const stored = load<unknown>(`${kind}-contexts`, 'localStorage');
  const isIds = (ids: unknown): ids is string[] =>
    Array.isArray(ids) && ids.length > 0 && ids.every((id) => typeof id === 'string');
  return Array.isArray(stored) ? stored.filter(isIds).slice(0, MOST[kind]) : [];
}

const keep = (kind: Kept, contexts: string[][]): void =>
  save(`${kind}-contexts`, contexts.slice(0, MOST[kind]), 'localStorage');

/** The same projects have the same key, in whatever order. */
export const keyOf = (ids: readonly string[]): string => ids.toSorted().join();
const without = (contexts: string[][], ids: string[]): string[][] =>
  contexts.filter((other) => keyOf(other) !== keyOf(ids));

/** Offers the projects of a context again. */
export function noteRecent(choice: Choice): void {
  const ids = toRequest(choice).projectIds;
  if (ids.length > 0) keep('recent', [ids, ...without(keptIds('recent'), ids)]);
}

/** Pins the projects of a context, or no longer. */
export function togglePinned(choice: Choice): void {
  const ids = toRequest(choice).projectIds;
  const pinned = keptIds('pinned');
  const others = without(pinned, ids);
  if (ids.length > 0) keep('pinned', others.length < pinned.length ? others : [...others, ids]);
}

/** The projects with those of recent contexts first, otherwise in their order. */
export function recentFirst(list: Project[], recent: string[][]): Project[] {
  const order = recent.flat();
  const place = (p: Project): number => {
    const at = order.indexOf(p.projectId);
    return at < 0 ? order.length : at;
  };
  return list.toSorted((a, b) => place(a) - place(b));
}
