// Checks of the form for a new run. The limits are those of the API.

import { Strategy, type Budgets } from '../gen/treeagent/v1/common_pb';
import type { EstimateRunResponse } from '../gen/treeagent/v1/run_service_pb';
import type { Failure } from './api/failure';
import { cost, number } from './format';

export interface BudgetField {
  key:
    | 'maxDepth'
    | 'maxNodes'
    | 'maxChildrenPerNode'
    | 'maxParallelSteps'
    | 'maxReplansPerNode'
    | 'maxIterations'
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
  { key: 'maxChildrenPerNode', label: 'Children per node', hint: '24', least: 1, most: 16_384 },
  { key: 'maxParallelSteps', label: 'Parallel steps', hint: '4', least: 1, most: 256 },
  { key: 'maxReplansPerNode', label: 'Replans per node', hint: '1', least: 0, most: 16 },
  { key: 'maxIterations', label: 'Iterations', hint: '5', least: 1, most: 100 },
  { key: 'minutes', label: 'Minutes', hint: '30', least: 1, most: 43_200 },
  { key: 'maxTokens', label: 'Tokens', hint: 'no limit', least: 1, most: 1e12 },
  { key: 'dollars', label: 'US dollars', hint: 'no limit', least: 0.000001, most: 1e6 },
  { key: 'maxToolCalls', label: 'Tool calls', hint: 'no limit', least: 1, most: 1e12 },
];

/** Budgets that shape a tree. A search has a depth of its own, and homework has iterations in place of new plans. */
const SHAPES: BudgetField['key'][] = [
  'maxDepth',
  'maxChildrenPerNode',
  'maxParallelSteps',
  'maxReplansPerNode',
  'maxIterations',
];
const OF_HOMEWORK: BudgetField['key'][] = ['maxParallelSteps', 'maxIterations'];
const OF_TREES = SHAPES.filter((key) => key !== 'maxIterations');

/** The budgets of a strategy. */
export function budgetFields(strategy: Strategy): BudgetField[] {
  const shape = strategy === Strategy.SEARCH ? [] : strategy === Strategy.HOMEWORK ? OF_HOMEWORK : OF_TREES;
  return BUDGET_FIELDS.filter((field) => !SHAPES.includes(field.key) || shape.includes(field.key));
}

const inUnits = (value: bigint | undefined, unit: number): number | undefined =>
  value === undefined ? undefined : Number(value) / unit;

/** How a field's value follows from the budgets of a message. */
const FROM_BUDGETS: Record<BudgetField['key'], (budgets: Budgets) => number | undefined> = {
  maxDepth: (b) => b.maxDepth,
  maxNodes: (b) => b.maxNodes,
  maxChildrenPerNode: (b) => b.maxChildrenPerNode,
  maxParallelSteps: (b) => b.maxParallelSteps,
  maxReplansPerNode: (b) => b.maxReplansPerNode,
  maxIterations: (b) => b.maxIterations,
  minutes: (b) => inUnits(b.maxWallClockMs, 60_000),
  maxTokens: (b) => inUnits(b.maxTokens, 1),
  dollars: (b) => inUnits(b.maxCostMicros, 1e6),
  maxToolCalls: (b) => inUnits(b.maxToolCalls, 1),
};

/** What the server takes when the field is left empty. */
export function defaultBudget(field: BudgetField, defaults: Budgets | undefined): string {
  const value = defaults && FROM_BUDGETS[field.key](defaults);
  return value === undefined ? field.hint : String(value);
}

export type BudgetTexts = Partial<Record<BudgetField['key'], string>>;

/** The texts of the budgets of a run that are not the server's defaults. */
export function budgetTexts(budgets: Budgets | undefined, defaults: Budgets | undefined, fields: BudgetField[]) {
  const texts: BudgetTexts = {};
  for (const { key } of fields) {
    const value = budgets && FROM_BUDGETS[key](budgets);
    if (value !== undefined && value !== (defaults && FROM_BUDGETS[key](defaults))) texts[key] = String(value);
  }
  return texts;
}

const OBJECTIVE_BYTES = 16_384;
const NAME_BYTES = 256;

export function checkObjective(text: string): string {
  if (text.trim() === '') return 'Describe what the run should find out or create.';
  const bytes = new TextEncoder().encode(text.trim()).length;
  return bytes > OBJECTIVE_BYTES ? `Shorten it: it has ${bytes} bytes, and ${OBJECTIVE_BYTES} are allowed.` : '';
}

/** What is wrong with a name; empty when nothing is. */
export function checkName(text: string): string {
  const bytes = new TextEncoder().encode(text.trim()).length;
  if (bytes > NAME_BYTES) return `Shorten it: it has ${bytes} bytes, and ${NAME_BYTES} are allowed.`;
  return /\p{Cc}/u.test(text) ? 'It must not contain control characters.' : '';
}

/**
 * What is wrong with a budget; empty when nothing is, or when it is left out. `limits` holds the server's own maxima.
 */
export function checkBudget(field: BudgetField, text: string | undefined, limits?: Budgets): string {
  if (text === undefined || text.trim() === '') return '';
  const value = Number(text);
  const whole = field.key === 'dollars' || Number.isInteger(value);
  const most = Math.min(field.most, (limits && FROM_BUDGETS[field.key](limits)) ?? Infinity);
  if (!Number.isFinite(value) || !whole || value < field.least || value > most)
    return `Give a ${field.key === 'dollars' ? 'number' : 'whole number'} from ${field.least} to ${most}, or leave it empty.`;
  return '';
}

/** The most that a run can use, in words. */
export function estimateWords({ estimate: e, model }: EstimateRunResponse): string {
  if (e === undefined) return '';
  const calls = [e.planCalls, e.executeCalls, e.aggregateCalls, e.researchCalls, e.pickCalls, e.verifyCalls];
  const amount = (n: number, unit: string): string => `at most ${number(n)} ${unit}${n === 1 ? '' : 's'}`;
  const words = [
    amount(Number(e.nodes), 'node'),
    amount(Number(calls.reduce((sum, n) => sum + n, 0n)), 'call'),
    ...(e.costMicros ? [`at most ${cost(Number(e.costMicros))}`] : []),
    ...(e.unlimited.includes('maxCostMicros') ? ['no limit on the cost'] : []),
  ].join(', ');
  return `${words[0]!.toUpperCase()}${words.slice(1)}${model === '' ? '' : ` · ${model}`}`;
}

/** Why no run was started, for the person who asked for one. */
export function notStarted(why: Failure | undefined): string {
  if (why === undefined) return '';
  if (why.kind === 'offline')
    return `${why.title}. The run may have started all the same. You can try again: it will not start twice.`;
  return why.detail === '' ? why.title : why.detail;
}

/** The budgets of the request; a field that was left empty takes the server's default. Only these `fields` count. */
export function toBudgets(texts: BudgetTexts, fields = BUDGET_FIELDS) {
  const n = (key: BudgetField['key']): number | undefined => {
    const text = fields.some((field) => field.key === key) ? (texts[key]?.trim() ?? '') : '';
    return text === '' ? undefined : Number(text);
  };
  const big = (value: number | undefined): bigint | undefined =>
    value === undefined ? undefined : BigInt(Math.round(value));
  const minutes = n('minutes');
  const dollars = n('dollars');
  const all = {
    maxDepth: n('maxDepth'),
    maxNodes: n('maxNodes'),
    maxChildrenPerNode: n('maxChildrenPerNode'),
    maxParallelSteps: n('maxParallelSteps'),
    maxReplansPerNode: n('maxReplansPerNode'),
    maxIterations: n('maxIterations'),
    maxWallClockMs: big(minutes === undefined ? undefined : minutes * 60_000),
    maxTokens: big(n('maxTokens')),
    maxCostMicros: big(dollars === undefined ? undefined : dollars * 1e6),
    maxToolCalls: big(n('maxToolCalls')),
  };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined)) as Partial<{
    [K in keyof typeof all]: NonNullable<(typeof all)[K]>;
  }>;
}
