// The context of a run: which projects it can read.

import { Scope, type RunContext } from '../gen/treeagent/v1/common_pb';
import type { Project } from '../gen/treeagent/v1/project_service_pb';
import { projects } from './api/client';

export interface Choice {
  kind: 'global' | 'project';
  project?: { id: string; name: string };
}

export const GLOBAL: Choice = { kind: 'global' };

export function toRequest(choice: Choice): { scope: Scope; projectIds: string[] } {
  return choice.kind === 'global' || choice.project === undefined
    ? { scope: Scope.GLOBAL, projectIds: [] }
    : { scope: Scope.PROJECT, projectIds: [choice.project.id] };
}

export function isGlobal(context: RunContext | undefined): boolean {
  return context === undefined || context.projectIds.length === 0;
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
