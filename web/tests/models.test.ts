import { create } from '@bufbuild/protobuf';
import { describe, expect, it, vi } from 'vitest';
import { ListModelsResponseSchema } from '../src/gen/treeagent/v1/model_service_pb';
import { modelProblem, suggestions } from '../src/lib/models';

vi.mock('../src/lib/api/client', () => ({}));

const list = create(ListModelsResponseSchema, {
  models: [
    { name: 'offline', description: 'Rules', usable: true },
    { name: 'fast', description: 'For executors', resolvesTo: 'openai:gpt-4.1-mini', usable: true },
    { name: 'powerful', description: 'For the root', usable: false, problem: 'TREE_AGENT_MODEL_POWERFUL is not set' },
    { name: 'openai:*', description: 'OpenAI', usable: true },
  ],
});

describe('models', () => {
  it('are suggested when they can be used', () => {
    expect(suggestions(list)).toEqual([
      { name: 'offline', description: 'Rules' },
      { name: 'fast', description: 'For executors (openai:gpt-4.1-mini)' },
    ]);
    expect(suggestions(undefined).map((s) => s.name)).toEqual(['offline']);
  });

  it('that cannot be used have a reason', () => {
    expect(modelProblem(list, ' powerful ')).toBe('TREE_AGENT_MODEL_POWERFUL is not set');
    for (const name of ['', 'fast', 'openai:gpt-5', 'nobody:knows']) expect(modelProblem(list, name)).toBe('');
    expect(modelProblem(undefined, 'powerful')).toBe('');
  });
});
