// Budgets as a person types them, for the run, for a subtree and for a fork.

import type { BudgetChange } from '../../gen/treeagent/v1/edits_pb';
import { cost, duration, number } from '../format';
import type { SubtreeBudget } from '../projection/model';
import type { BudgetInit, SubtreeBudgetInit } from './actions';

export interface Limit {
  key: 'maxTokens' | 'maxCostMicros' | 'maxToolCalls' | 'maxWallClockMs' | 'maxNodes' | 'maxParallelSteps';
  label: string;
  /** One of what is typed in units of the message. */
  unit: number;
  least: number;
  most: number;
  /** 0 removes the limit. */
  removable: boolean;
}

const OF_SUBTREES: Limit[] = [
  { key: 'maxTokens', label: 'Tokens', unit: 1, least: 1, most: 1e12, removable: true },
  { key: 'maxCostMicros', label: 'US dollars', unit: 1e6, least: 0.000001, most: 1e6, removable: true },
  { key: 'maxToolCalls', label: 'Tool calls', unit: 1, least: 1, most: 1e12, removable: true },
  { key: 'maxWallClockMs', label: 'Minutes', unit: 60_000, least: 1, most: 43_200, removable: false },
];

const OF_RUNS: Limit[] = [
  ...OF_SUBTREES,
  { key: 'maxNodes', label: 'Nodes', unit: 1, least: 1, most: 1_000_000, removable: false },
  { key: 'maxParallelSteps', label: 'Parallel steps', unit: 1, least: 1, most: 256, removable: false },
];

/** A limit in errors of the server: `max_tokens`. */
export const fieldOf = ({ key }: Limit): string => key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** What can be changed for the whole run, or for the subtree of a node. */
export const limitsOf = (wholeRun: boolean): Limit[] => (wholeRun ? OF_RUNS : OF_SUBTREES);

/** The limits of a new budget of a subtree. Nothing is there that could be removed. */
export const SUBTREE_LIMITS: Limit[] = OF_SUBTREES.map((limit) => ({ ...limit, removable: false }));

export type LimitTexts = Partial<Record<Limit['key'], string>>;

/** What is wrong with a limit; empty when nothing is, or when it is left out. */
export function checkLimit(limit: Limit, text: string | undefined): string {
  const typed = text?.trim() ?? '';
  if (typed === '') return '';
  const value = Number(typed);
  if (limit.removable && value === 0) return '';
  const whole = limit.key === 'maxCostMicros' || Number.isInteger(value);
  if (Number.isFinite(value) && whole && value >= limit.least && value <= limit.most) return '';
  const kind = limit.key === 'maxCostMicros' ? 'number' : 'whole number';
  return `Give a ${kind} from ${limit.least} to ${limit.most}${limit.removable ? ', 0 for no limit' : ''}, or leave it empty.`;
}

export const areWrong = (limits: readonly Limit[], texts: LimitTexts): boolean =>
  limits.some((limit) => checkLimit(limit, texts[limit.key]) !== '');

/** The change that the texts ask for; undefined while one of them is wrong or all are empty. */
export function toChange(limits: Limit[], texts: LimitTexts): BudgetInit | undefined {
  if (areWrong(limits, texts)) return undefined;
  const typed = limits.flatMap((limit) => {
    const text = texts[limit.key]?.trim() ?? '';
    if (text === '') return [];
    const value = Math.round(Number(text) * limit.unit);
    return [[limit.key, limit.key === 'maxNodes' || limit.key === 'maxParallelSteps' ? value : BigInt(value)] as const];
  });
  return typed.length === 0 ? undefined : Object.fromEntries(typed);
}

/** The budget of a subtree that the texts ask for; undefined if there is none. */
export function toSubtreeBudget(texts: LimitTexts): SubtreeBudgetInit | undefined {
  return toChange(SUBTREE_LIMITS, texts) as SubtreeBudgetInit | undefined;
}

/** A budget of a subtree, as it would be typed. */
export function textsOf(budget: SubtreeBudget | undefined): LimitTexts {
  return Object.fromEntries(
    SUBTREE_LIMITS.map((limit) => [limit.key, current(limit, budget)] as const).filter(([, text]) => text !== ''),
  );
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

/** The limits that hold now, as they would be typed. */
export function current(
  limit: Limit,
  budgets: Partial<Record<Limit['key'], number | bigint | undefined>> | BudgetChange | undefined,
): string {
  const value = budgets?.[limit.key];
  return value === undefined ? '' : String(Number(value) / limit.unit);
}
