// Checks of the form for a new run, with the limits of the API.

import type { Failure } from './api/client';

export interface BudgetField {
  key:
    | 'maxDepth'
    | 'maxNodes'
    | 'maxChildrenPerNode'
    | 'maxParallelSteps'
    | 'maxReplansPerNode'
    | 'minutes'
    | 'maxTokens'
    | 'dollars'
    | 'maxToolCalls';
  label: string;
  hint: string;
  least: number;
  most: number;
}

export const BUDGET_FIELDS: BudgetField[] = [
  { key: 'maxDepth', label: 'Depth', hint: '4', least: 0, most: 64 },
  { key: 'maxNodes', label: 'Nodes', hint: '1000', least: 1, most: 1_000_000 },
  { key: 'maxChildrenPerNode', label: 'Children of a node', hint: '12', least: 1, most: 16_384 },
  { key: 'maxParallelSteps', label: 'Steps at a time', hint: '4', least: 1, most: 256 },
  { key: 'maxReplansPerNode', label: 'Replans of a node', hint: '1', least: 0, most: 16 },
  { key: 'minutes', label: 'Minutes', hint: '30', least: 1, most: 43_200 },
  { key: 'maxTokens', label: 'Tokens', hint: 'no limit', least: 1, most: 1e12 },
  { key: 'dollars', label: 'US dollars', hint: 'no limit', least: 0.000001, most: 1e6 },
  { key: 'maxToolCalls', label: 'Tool calls', hint: 'no limit', least: 1, most: 1e12 },
];

export type BudgetTexts = Partial<Record<BudgetField['key'], string>>;

const OBJECTIVE_BYTES = 16_384;

export function checkObjective(text: string): string {
  if (text.trim() === '') return 'Say what the run should find out or make.';
  const bytes = new TextEncoder().encode(text.trim()).length;
  return bytes > OBJECTIVE_BYTES ? `Shorten it: it has ${bytes} bytes, and ${OBJECTIVE_BYTES} is the most.` : '';
}

/** What is wrong with a budget; empty for one that is fine or left out. */
export function checkBudget(field: BudgetField, text: string | undefined): string {
  if (text === undefined || text.trim() === '') return '';
  const value = Number(text);
  const whole = field.key === 'dollars' || Number.isInteger(value);
  if (!Number.isFinite(value) || !whole || value < field.least || value > field.most)
    return `Give a ${field.key === 'dollars' ? 'number' : 'whole number'} from ${field.least} to ${field.most}, or leave it empty.`;
  return '';
}

/** Why no run was started, for the person who asked for one. */
export function notStarted(why: Failure): string {
  if (why.kind === 'offline') return `${why.title}. The run may have started all the same. You can try again: it will not start twice.`;
  return why.detail === '' ? why.title : why.detail;
}

/** The budgets of the request; a field that was left empty takes the server's default. */
export function toBudgets(texts: BudgetTexts) {
  const n = (key: BudgetField['key']): number | undefined => {
    const text = texts[key]?.trim() ?? '';
    return text === '' ? undefined : Number(text);
  };
  const big = (value: number | undefined): bigint | undefined => (value === undefined ? undefined : BigInt(Math.round(value)));
  const minutes = n('minutes');
  const dollars = n('dollars');
  const all = {
    maxDepth: n('maxDepth'),
    maxNodes: n('maxNodes'),
    maxChildrenPerNode: n('maxChildrenPerNode'),
    maxParallelSteps: n('maxParallelSteps'),
    maxReplansPerNode: n('maxReplansPerNode'),
    maxWallClockMs: big(minutes === undefined ? undefined : minutes * 60_000),
    maxTokens: big(n('maxTokens')),
    maxCostMicros: big(dollars === undefined ? undefined : dollars * 1e6),
    maxToolCalls: big(n('maxToolCalls')),
  };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined)) as Partial<{
    [K in keyof typeof all]: NonNullable<(typeof all)[K]>;
  }>;
}
