// The context of a run: which projects it can read, and what the server knows of them.

import type { MessageInitShape } from '@bufbuild/protobuf';
import type { RunContext } from '../gen/treeagent/v1/common_pb';
import type { ListProjectsRequestSchema, Project } from '../gen/treeagent/v1/project_service_pb';
import { failure, projects } from './api/client';
import { GLOBAL, isGlobal, type Choice, type Named } from './context-choice';
import type { Page } from './paged.svelte';
import { isArchived } from './project-list';
import { load, save } from './storage';

/** The choice that leads to a context. Names that are not known yet are ids. */
export async function toChoice(context: RunContext | undefined): Promise<Choice> {
  if (isGlobal(context)) return GLOBAL;
  const ids = context?.projectIds ?? [];
  const names = await Promise.all(ids.map(projectName));
  return { kind: 'project', projects: ids.map((id, i) => ({ id, name: names[i] ?? id })) };
}

/** Those of some contexts whose projects all take new runs. */
export async function openChoices(contexts: string[][]): Promise<Choice[]> {
  // A project that cannot be read is gone, or the server cannot be reached: the list says so.
  const read = contexts.map((ids) => Promise.all(ids.map((id) => getProject(id))).catch(() => []));
  const open = (await Promise.all(read)).filter((list) => list.length > 0 && !list.some(isArchived));
  return open.map((list) => ({ kind: 'project', projects: list.map(named) }));
}

export const named = ({ projectId, name }: Project): Named => ({ id: projectId, name });

const names = new Map<string, Promise<string>>();
/** Names that this browser has seen, the latest last: a project that is deleted keeps its name here. */
const SEEN = 'projectNames';
const MOST_SEEN = 500;

/** The name of a project, or of one that is deleted the last one that was seen. Cached. */
export function projectName(id: string): Promise<string> {
  let name = names.get(id);
  if (name === undefined) {
    name = getProject(id).then(
      (project) => project.name,
      (error: unknown) => {
        const seen = load<Record<string, string>>(SEEN)?.[id];
        if (failure(error).kind === 'missing') return `${seen ?? `project ${id.slice(-8)}`} (deleted)`;
        names.delete(id);
        return seen ?? id;
      },
    );
    names.set(id, name);
  }
  return name;
}

function remember(list: Project[]): void {
  const seen = Object.entries(load<Record<string, string>>(SEEN) ?? {});
  const others = seen.filter(([id]) => list.every((p) => p.projectId !== id));
  save(SEEN, Object.fromEntries([...others, ...list.map((p) => [p.projectId, p.name])].slice(-MOST_SEEN)));
  for (const p of list) names.set(p.projectId, Promise.resolve(p.name));
}

export async function getProject(projectId: string, signal?: AbortSignal): Promise<Project> {
  const { project } = await projects.getProject({ key: { case: 'projectId', value: projectId } }, { signal });
  remember([project!]);
  return project!;
}

/** One page of the projects that a request names. */
export async function listProjects(
  request: MessageInitShape<typeof ListProjectsRequestSchema>,
  signal?: AbortSignal,
): Promise<Page<Project>> {
  const page = await projects.listProjects(request, { signal });
  remember(page.projects);
  return { items: page.projects, next: page.nextPageToken };
}
