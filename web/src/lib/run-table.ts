// The columns of the list of runs, and their order by one of them. The server lists runs by the time of their creation
// only, so any other order is that of the runs that are shown.

import type { Run } from '../gen/treeagent/v1/run_service_pb';
import { strategy, time, took, usage } from './projection/wire';

/** What answered says more than what was asked for, such as `llm`. */
export const modelOf = (run: Run): string => (run.models.length > 0 ? run.models.join(', ') : run.model);
export const titleOf = (run: Run): string => run.displayName || run.objective;
export function tokensOf(run: Run): number {
  const { inputTokens, outputTokens } = usage(run.usage);
  return inputTokens + outputTokens;
}

/** The columns, and by what each is sorted. */
const SORTED_BY = {
  status: (run: Run) => run.status,
  question: (run: Run) => titleOf(run).toLowerCase(),
  context: (run: Run) => run.context?.projectIds.join() ?? '',
  strategy: (run: Run) => strategy(run.strategy),
  model: (run: Run) => modelOf(run).toLowerCase(),
  duration: (run: Run, now: number) => took(run, now) ?? -1,
  tokens: tokensOf,
  cost: (run: Run) => usage(run.usage).costMicros,
  started: (run: Run) => time(run.createdAt),
};
export type Column = keyof typeof SORTED_BY;

export const COLUMNS: { key: Column; label: string }[] = [
  { key: 'status', label: 'Status' },
  { key: 'question', label: 'Question' },
  { key: 'context', label: 'Context' },
  { key: 'strategy', label: 'Strategy' },
  { key: 'model', label: 'Model' },
  { key: 'duration', label: 'Time' },
  { key: 'tokens', label: 'Tokens' },
  { key: 'cost', label: 'Cost' },
  { key: 'started', label: 'Started' },
];

/** An order: by a column, ascending or not. */
export interface Order {
  by: Column;
  down: boolean;
}

/** The server's order. */
export const NEWEST: Order = { by: 'started', down: true };

/** The order of a parameter of the URL such as `cost` or `-cost`. */
export function orderOf(param: string): Order {
  const by = COLUMNS.find(({ key }) => key === param.replace(/^-/, ''))?.key;
  return by === undefined ? NEWEST : { by, down: param.startsWith('-') };
}

export const orderParam = ({ by, down }: Order): string =>
  by === NEWEST.by && down === NEWEST.down ? '' : `${down ? '-' : ''}${by}`;

/** The order after a click on a column. Numbers begin with the largest. */
export function clicked(order: Order, by: Column): Order {
  if (order.by === by) return { by, down: !order.down };
  return { by, down: ['duration', 'tokens', 'cost', 'started'].includes(by) };
}

/** The runs in an order; those that are equal stay as they are. */
export function sorted(runs: readonly Run[], { by, down }: Order, now: number): Run[] {
  if (by === NEWEST.by && down === NEWEST.down) return [...runs];
  const sign = down ? -1 : 1;
  return runs
    .map((run) => ({ run, key: SORTED_BY[by](run, now) }))
    .sort((a, b) => (a.key < b.key ? -sign : a.key > b.key ? sign : 0))
    .map(({ run }) => run);
}
