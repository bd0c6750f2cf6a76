// The models that a run can name on this server.

import type { ListModelsResponse, Model } from '../gen/treeagent/v1/model_service_pb';
import { models } from './api/client';

/** Needs no settings, so every server has it. */
const ALWAYS = { name: 'offline', description: 'Rules, no language model' };

/** Undefined when the server does not say which models it has. */
export function listModels(): Promise<ListModelsResponse | undefined> {
  return models.listModels({}).catch(() => undefined);
}

/** The models to choose from: those that can be used now. */
export function suggestions(list: ListModelsResponse | undefined): Pick<Model, 'name' | 'description'>[] {
  if (list === undefined) return [ALWAYS];
  return list.models
    .filter((model) => model.usable && !isPattern(model))
    .map(({ name, description, resolvesTo }) => ({
      name,
      description: resolvesTo === '' ? description : `${description} (${resolvesTo})`,
    }));
}

/** Why the model that was typed cannot be used; empty when it can, or when only the server can tell. */
export function modelProblem(list: ListModelsResponse | undefined, name: string): string {
  const model = list?.models.find((m) => m.name === name.trim());
  return model === undefined || model.usable ? '' : model.problem;
}

/** A name such as `openai:*`, which stands for every model of a provider. */
const isPattern = (model: Model): boolean => model.name.endsWith('*');
