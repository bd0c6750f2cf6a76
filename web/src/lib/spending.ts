// How much of its budgets a run has used up.

import type { Budgets } from '../gen/treeagent/v1/common_pb';
import { cost, number, short } from './format';
import type { Stats } from './projection/projection';

export interface Spending {
  name: string;
  text: string;
  /** From 0 to 1; 1 also when the limit is exceeded. */
  part: number;
}

/** One row for each consumable budget that has a limit. */
export function spending(budgets: Budgets, stats: Stats): Spending[] {
  const { usage } = stats;
  const rows: [string, number | bigint | undefined, number, (n: number) => string][] = [
    ['Nodes', budgets.maxNodes, stats.nodes, number],
    ['Tokens', budgets.maxTokens, usage.inputTokens + usage.outputTokens, short],
    ['Cost', budgets.maxCostMicros, usage.costMicros, cost],
    ['Tool calls', budgets.maxToolCalls, usage.toolCalls, number],
  ];
  return rows.flatMap(([name, limit, used, shown]) => {
    if (limit === undefined) return [];
    const most = Number(limit);
    return [{ name, text: `${shown(used)} of ${shown(most)}`, part: most > 0 ? Math.min(1, used / most) : 1 }];
  });
}
