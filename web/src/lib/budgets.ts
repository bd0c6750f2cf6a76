// Budgets as a person types them. The limits are those of the API.

import { Strategy, type Budgets } from '../gen/treeagent/v1/common_pb';

export interface Limit {
  key:
    | 'maxDepth'
    | 'maxNodes'
    | 'maxChildrenPerNode'
    | 'maxParallelSteps'
    | 'maxReplansPerNode'
    | 'maxIterations'
    | 'maxWallClockMs'
    | 'maxTokens'
    | 'maxCostMicros'
    | 'maxToolCalls';
  label: string;
  /** What a form shows until the default of the server is known. */
  hint: string;
  /** One of what is typed in units of the message. */
  unit: number;
  least: number;
  most: number;
  /** 0 removes the limit. */
  removable?: boolean;
}

export const LIMITS: readonly Limit[] = [
  { key: 'maxDepth', label: 'Depth', hint: '4', unit: 1, least: 0, most: 64 },
  { key: 'maxNodes', label: 'Nodes', hint: '1000', unit: 1, least: 1, most: 1_000_000 },
  { key: 'maxChildrenPerNode', label: 'Children per node', hint: '24', unit: 1, least: 1, most: 16_384 },
  { key: 'maxParallelSteps', label: 'Parallel steps', hint: '4', unit: 1, least: 1, most: 256 },
  { key: 'maxReplansPerNode', label: 'Replans per node', hint: '1', unit: 1, least: 0, most: 16 },
  { key: 'maxIterations', label: 'Iterations', hint: '5', unit: 1, least: 1, most: 100 },
  { key: 'maxWallClockMs', label: 'Minutes', hint: '30', unit: 60_000, least: 1, most: 43_200 },
  { key: 'maxTokens', label: 'Tokens', hint: 'no limit', unit: 1, least: 1, most: 1e12 },
  { key: 'maxCostMicros', label: 'US dollars', hint: 'no limit', unit: 1e6, least: 0.000001, most: 1e6 },
  { key: 'maxToolCalls', label: 'Tool calls', hint: 'no limit', unit: 1, least: 1, most: 1e12 },
];

/** Budgets that the message holds in 64 bits. */
const WIDE: Limit['key'][] = ['maxWallClockMs', 'maxTokens', 'maxCostMicros', 'maxToolCalls'];

/** Budgets that shape a tree. A search has a depth of its own, and homework has iterations in place of new plans. */
const SHAPES: Limit['key'][] = [
  'maxDepth',
  'maxChildrenPerNode',
  'maxParallelSteps',
  'maxReplansPerNode',
  'maxIterations',
];
const OF_HOMEWORK: Limit['key'][] = ['maxParallelSteps', 'maxIterations'];
const OF_TREES = SHAPES.filter((key) => key !== 'maxIterations');

/** The budgets of a strategy. */
export function strategyLimits(strategy: Strategy): Limit[] {
  const shape = strategy === Strategy.SEARCH ? [] : strategy === Strategy.HOMEWORK ? OF_HOMEWORK : OF_TREES;
  return LIMITS.filter(({ key }) => !SHAPES.includes(key) || shape.includes(key));
}

/** A limit in errors of the server: `max_tokens`. */
export const fieldOf = ({ key }: Limit): string => key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

export type LimitTexts = Partial<Record<Limit['key'], string>>;

/** Budgets in a message, or in the graph. */
type Held = Partial<Record<Limit['key'], number | bigint | undefined>>;

/** What budgets hold, as it would be typed; empty for what they leave open. */
export function current({ key, unit }: Limit, budgets: Held | undefined): string {
  const value = budgets?.[key];
  return value === undefined ? '' : String(Number(value) / unit);
}

/** What budgets hold that is not the default, as it would be typed. */
export function textsOf(limits: readonly Limit[], budgets: Held | undefined, defaults?: Held): LimitTexts {
  const texts = limits.map((limit) => [limit, current(limit, budgets)] as const);
  const own = texts.filter(([limit, text]) => text !== '' && text !== current(limit, defaults));
  return Object.fromEntries(own.map(([{ key }, text]) => [key, text]));
}

/** What is wrong with a limit; empty when nothing is, or when it is left out. `server` has the server's own maxima. */
export function checkLimit(limit: Limit, text = '', server?: Budgets): string {
  const { key, least, removable = false } = limit;
  const value = Number(text);
  if (text.trim() === '' || (removable && value === 0)) return '';
  const most = Math.min(limit.most, Number(current(limit, server) || Infinity));
  const fits = Number.isInteger(value) || (key === 'maxCostMicros' && Number.isFinite(value));
  if (fits && value >= least && value <= most) return '';
  const kind = key === 'maxCostMicros' ? 'number' : 'whole number';
  return `Give a ${kind} from ${least} to ${most}${removable ? ', 0 for no limit' : ''}, or leave it empty.`;
}

export const areWrong = (limits: readonly Limit[], texts: LimitTexts): boolean =>
  limits.some((limit) => checkLimit(limit, texts[limit.key]) !== '');

/** The budgets of a request; a field that was left empty takes the server's default. */
export function toBudgets(limits: readonly Limit[], texts: LimitTexts): Partial<Omit<Budgets, `$${string}`>> {
  const typed = limits.filter(({ key }) => (texts[key] ?? '').trim() !== '');
  return Object.fromEntries(
    typed.map(({ key, unit }) => {
      const value = Math.round(Number(texts[key]) * unit);
      return [key, WIDE.includes(key) ? BigInt(value) : value];
    }),
  );
}
