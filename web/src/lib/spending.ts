// How much of its budgets a run has used up.

import type { Budgets } from '../gen/treeagent/v1/common_pb';
import { cost, number, short } from './format';
import { subtreeUse, type GraphNode, type Usage } from './projection/model';

export interface Spending {
  name: string;
  text: string;
  /** From 0 to 1; 1 also when the limit is exceeded. */
  part: number;
}

/** A name, a limit, what is used of it, and how both are shown. */
type Row = [string, number | bigint | undefined, number, (n: number) => string];

function shares(rows: Row[]): Spending[] {
  return rows.flatMap(([name, limit, used, shown]) => {
    if (limit === undefined) return [];
    const most = Number(limit);
    return [{ name, text: `${shown(used)} of ${shown(most)}`, part: most > 0 ? Math.min(1, used / most) : 1 }];
  });
}

/** One row for each consumable budget that has a limit. */
export function spending(budgets: Budgets, nodes: number, usage: Readonly<Usage>): Spending[] {
  return shares([
    ['Nodes', budgets.maxNodes, nodes, number],
    ['Tokens', budgets.maxTokens, usage.inputTokens + usage.outputTokens, short],
    ['Cost', budgets.maxCostMicros, usage.costMicros, cost],
    ['Tool calls', budgets.maxToolCalls, usage.toolCalls, number],
  ]);
}

/** The same for the budget of a subtree. */
export function leaseRows({ lease, subtreeUsage }: GraphNode): Spending[] {
  if (lease === undefined) return [];
  const { limits, before } = lease;
  const used = subtreeUse(subtreeUsage);
  return shares([
    ['Tokens', limits.maxTokens, used.tokens - before.tokens, short],
    ['Cost', limits.maxCostMicros, used.costMicros - before.costMicros, cost],
    ['Tool calls', limits.maxToolCalls, used.toolCalls - before.toolCalls, number],
  ]);
}
