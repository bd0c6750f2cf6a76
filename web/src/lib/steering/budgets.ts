// Budgets that commands change, for the run, for a subtree and for a fork.

import { areWrong, LIMITS, toBudgets, type Limit, type LimitTexts } from '../budgets';
import { cost, duration, number } from '../format';
import type { SubtreeBudget } from '../projection/model';
import type { BudgetInit, SubtreeBudgetInit } from './actions';

const limits = (...keys: Limit['key'][]): Limit[] => keys.map((key) => LIMITS.find((limit) => limit.key === key)!);

/** The limits of a new budget of a subtree. Nothing is there that could be removed. */
export const SUBTREE_LIMITS = limits('maxTokens', 'maxCostMicros', 'maxToolCalls', 'maxWallClockMs');

const OF_SUBTREES = SUBTREE_LIMITS.map((limit) => ({ ...limit, removable: limit.key !== 'maxWallClockMs' }));
const OF_RUNS = [...OF_SUBTREES, ...limits('maxNodes', 'maxParallelSteps')];

/** What can be changed for the whole run, or for the subtree of a node. */
export const limitsOf = (wholeRun: boolean): Limit[] => (wholeRun ? OF_RUNS : OF_SUBTREES);

/** The change that the texts ask for; undefined while one of them is wrong or all are empty. */
export function toChange(of: readonly Limit[], texts: LimitTexts): BudgetInit | undefined {
  const change = areWrong(of, texts) ? {} : toBudgets(of, texts);
  return Object.keys(change).length === 0 ? undefined : change;
}

/** The budget of a subtree that the texts ask for; undefined if there is none. */
export function toSubtreeBudget(texts: LimitTexts): SubtreeBudgetInit | undefined {
  return toChange(SUBTREE_LIMITS, texts) as SubtreeBudgetInit | undefined;
}

/** A budget of a subtree in words, such as `9,000 tokens, $1.00`. */
export function subtreeWords(budget: SubtreeBudget): string {
  const words = SUBTREE_LIMITS.flatMap(({ key, label }) => {
    const value = budget[key as keyof SubtreeBudget];
    if (value === undefined) return [];
    return [
      key === 'maxCostMicros'
        ? cost(value)
        : key === 'maxWallClockMs'
          ? duration(value)
          : `${number(value)} ${label.toLowerCase()}`,
    ];
  });
  return words.join(', ');
}
