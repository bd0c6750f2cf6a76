// Differences of two runs, in words and numbers.

import {
  NodeAspect,
  type DiffCounts,
  NodeMatching,
  type NodeTotals,
  type RunTotals,
  type Spending,
  type TextDiff,
} from '../../gen/treeagent/v1/run_diff_pb';
import { NodeStatus } from '../../gen/treeagent/v1/common_pb';
import { reasonWords } from '../reasons';
import { cost, count, duration, number } from '../format';
import { outcome, nodeStatus, runStatus } from '../projection/wire';
import type { Comparison, DiffRow } from './rows';

export interface ComparisonLook {
  sign: string;
  label: string;
}

export const LOOKS: Record<Comparison, ComparisonLook> = {
  same: { sign: '=', label: 'Same' },
  changed: { sign: '~', label: 'Changed' },
  'only-a': { sign: '−', label: 'Only in A' },
  'only-b': { sign: '+', label: 'Only in B' },
};

export const tokens = (s: Spending | undefined): number => Number(s?.inputTokens ?? 0n) + Number(s?.outputTokens ?? 0n);

/** `+12 (+50 %)`, `-3`; `=` when nothing differs, nothing when one is missing. */
export function change(a: number | undefined, b: number | undefined, shown: (n: number) => string): string {
  if (a === undefined || b === undefined) return '';
  if (a === b) return '=';
  const sign = b > a ? '+' : '-';
  const percent = a === 0 ? '' : ` (${sign}${number(Math.floor((Math.abs(b - a) * 100) / a))} %)`;
  return `${sign}${shown(Math.abs(b - a))}${percent}`;
}

export interface TableRow {
  name: string;
  a: string;
  b: string;
  change: string;
}

/** Outcome, cost, tokens, time and sizes of the runs, side by side. */
export function tableRows(a: RunTotals, b: RunTotals): TableRow[] {
  const told = (run: RunTotals): string =>
    `${runStatus(run.status)}${run.partial ? ', partial' : ''}${run.error ? `: ${reasonWords(run.error).slice(0, 200)}` : ''}`;
  const row = (name: string, of: (run: RunTotals) => number | undefined, shown: (n: number) => string): TableRow => {
    const [left, right] = [of(a), of(b)];
    const text = (n: number | undefined): string => (n === undefined ? '–' : shown(n));
    return { name, a: text(left), b: text(right), change: change(left, right, shown) };
  };
  return [
    { name: 'Outcome', a: told(a), b: told(b), change: told(a) === told(b) ? '=' : 'differs' },
    row('Cost', (run) => Number(run.spending?.costMicros ?? 0n), cost),
    row('Tokens', (run) => tokens(run.spending), number),
    row('Time', (run) => (run.durationMs === undefined ? undefined : Number(run.durationMs)), duration),
    row('Nodes', (run) => Number(run.nodes), number),
    row('Tool calls', (run) => Number(run.spending?.toolCalls ?? 0n), number),
    row('Event', (run) => Number(run.seq), number),
  ];
}

/** What differs in a node, such as `result · cost $0.01 → $0.02`. */
export function changes({ diff }: DiffRow): string {
  const { a, b } = diff;
  if (a === undefined || b === undefined) return status(a ?? b);
  const from = <T>(of: (node: NodeTotals) => T, shown: (value: T) => string): string => {
    const [left, right] = [shown(of(a)), shown(of(b))];
    return left === right ? '' : ` ${left} → ${right}`;
  };
  const time = (node: NodeTotals): string => (node.durationMs === undefined ? '–' : duration(Number(node.durationMs)));
  const told: Partial<Record<NodeAspect, () => string>> = {
    [NodeAspect.PLAN]: () => 'plan',
    [NodeAspect.RESULT]: () => 'result',
    [NodeAspect.COST]: () => {
      if (a.spending?.costMicros !== b.spending?.costMicros) {
        return `cost${from((n) => Number(n.spending?.costMicros ?? 0n), cost)}`;
      }
      return tokens(a.spending) === tokens(b.spending) && a.spending?.modelCalls !== b.spending?.modelCalls
        ? `calls${from((n) => Number(n.spending?.modelCalls ?? 0n), number)}`
        : `tokens${from((n) => tokens(n.spending), number)}`;
    },
    [NodeAspect.TIME]: () => `time${from(time, String)}`,
    [NodeAspect.TOOLS]: () => `tools${from((n) => Number(n.spending?.toolCalls ?? 0n), number)}`,
    [NodeAspect.STATUS]: () => {
      if (status(a) !== status(b)) return `status${from(status, String)}`;
      return a.status === NodeStatus.FAILED ? 'error' : 'skipped';
    },
    [NodeAspect.TITLE]: () => `title${from((n) => n.title.slice(0, 80), String)}`,
  };
  return diff.changes.flatMap((aspect) => told[aspect]?.() ?? []).join(' · ');
}

function status(node: NodeTotals | undefined): string {
  if (node === undefined) return '';
  const how = node.outcome === undefined ? undefined : outcome(node.outcome);
  return `${nodeStatus(node.status)}${how === 'partial' ? ', partial' : ''}`;
}

/** How many nodes differ, and how. */
export function differenceWords({ same, changed, onlyA, onlyB }: DiffCounts): string {
  const [a, b, both] = [onlyA, onlyB, changed].map((n) => number(Number(n)));
  return `${count(Number(same), 'node')} the same, ${both} changed, ${a} only in A, ${b} only in B.`;
}

/** What tells that two nodes are compared with each other. */
export function matchingWords(matching: NodeMatching): string {
  return matching === NodeMatching.IDS
    ? 'The runs share nodes, which are compared by their ids.'
    : 'The runs are independent. Nodes are compared by steps and titles.';
}

/** Such as `2 lines removed, 1 line added`. */
export function textWords({ removed, added, hunks }: TextDiff): string {
  if (hunks.length === 0) return 'The texts are the same.';
  return `${count(Number(removed), 'line')} removed, ${count(Number(added), 'line')} added.`;
}
