// The context of a run: which projects it can read, and what the server knows of them.

import type { RunContext } from '../gen/treeagent/v1/common_pb';
import { ProjectStatus, type Project } from '../gen/treeagent/v1/project_service_pb';
import { projects } from './api/client';
import { GLOBAL, isGlobal, type Choice } from './context-choice';

/** The choice that leads to a context. Names that are not known yet are ids. */
export async function toChoice(context: RunContext | undefined): Promise<Choice> {
  if (isGlobal(context)) return GLOBAL;
  const ids = context?.projectIds ?? [];
  const names = await Promise.all(ids.map(projectName));
  return { kind: 'project', projects: ids.map((id, i) => ({ id, name: names[i] ?? id })) };
}

/** Those of some contexts whose projects all take new runs. */
export async function openChoices(contexts: string[][]): Promise<Choice[]> {
  const found = await Promise.all(
    contexts.map(async (ids): Promise<Choice | undefined> => {
      try {
        const answers = await Promise.all(
          ids.map((id) => projects.getProject({ key: { case: 'projectId', value: id } })),
        );
        const named = answers
          .map((answer) => answer.project)
          .filter((p) => p !== undefined && p.status !== ProjectStatus.ARCHIVED);
        if (named.length !== ids.length) return undefined;
        return { kind: 'project', projects: named.map((p) => ({ id: p!.projectId, name: p!.name })) };
      } catch {
        // It is gone, or the server cannot be reached: the list says so.
        return undefined;
      }
    }),
  );
  return found.filter((choice) => choice !== undefined);
}

const names = new Map<string, Promise<string>>();

/** The name of a project, or its id when the name cannot be read. Cached. */
export function projectName(id: string): Promise<string> {
  let name = names.get(id);
  if (name === undefined) {
    name = projects.getProject({ key: { case: 'projectId', value: id } }).then(
      (r) => r.project?.name ?? id,
      () => {
        names.delete(id);
        return id;
      },
    );
    names.set(id, name);
  }
  return name;
}

export function remember(list: Project[]): void {
  for (const p of list) names.set(p.projectId, Promise.resolve(p.name));
}
