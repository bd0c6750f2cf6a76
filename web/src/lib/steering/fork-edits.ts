// What a fork does differently, from the fields of its dialog.

import type { ForkEditInit, PlanInit } from './actions';
import type { LimitTexts } from '../budgets';
import { limitsOf, toChange, toSubtreeBudget } from './budgets';

/** What a fork does with the selected node. */
export type OnNode = 'nothing' | 'guide' | 'retry' | 'plan' | 'budget';

export const noEdits = () => ({
  onNode: 'nothing' as OnNode,
  guidance: '',
  /** Guidance is for everything below the node, too. */
  subtree: false,
  /** The model of the node that is retried. */
  nodeModel: '',
  nodeLimits: {} as LimitTexts,
  /** Limits of the node's own budget that change. */
  nodeChange: {} as LimitTexts,
  /** The model of all calls. */
  model: '',
  limits: {} as LimitTexts,
});
export type ForkFields = ReturnType<typeof noEdits>;

/**
 * The edits that the fields ask for, with the plan that the node is given; undefined while what is chosen is
 * incomplete. Budgets come first: work may need their room.
 */
export function forkEdits(fields: ForkFields, nodeId: string | undefined, plan?: PlanInit): ForkEditInit[] | undefined {
  const edits: ForkEditInit[] = [];
  const change = toChange(limitsOf(true), fields.limits);
  if (change !== undefined) edits.push({ edit: { case: 'budget', value: { nodeId: '', change } } });
  if (fields.model.trim() !== '') edits.push({ edit: { case: 'model', value: fields.model.trim() } });
  if (nodeId === undefined || fields.onNode === 'nothing') return edits;
  if (fields.onNode === 'plan')
    return plan === undefined ? undefined : [...edits, { edit: { case: 'plan', value: { nodeId, plan } } }];
  if (fields.onNode === 'budget') {
    const own = toChange(limitsOf(false), fields.nodeChange);
    return own === undefined ? undefined : [...edits, { edit: { case: 'budget', value: { nodeId, change: own } } }];
  }
  const text = fields.guidance.trim();
  if (fields.onNode === 'guide') {
    if (text === '') return undefined;
    return [...edits, { edit: { case: 'guide', value: { nodeId, text, subtree: fields.subtree } } }];
  }
  const [model, budget] = [fields.nodeModel.trim(), toSubtreeBudget(fields.nodeLimits)];
  return [...edits, { edit: { case: 'retry', value: { nodeId, guidance: text, model, budget } } }];
}
