// What a person can tell a run.

import type { MessageInitShape } from '@bufbuild/protobuf';
import type { BudgetChangeSchema, ForkEditSchema, PlanEditSchema } from '../../gen/treeagent/v1/edits_pb';
import type { SubtreeBudgetSchema } from '../../gen/treeagent/v1/common_pb';
import type { CommandPreview } from '../../gen/treeagent/v1/steering_pb';

type Plain<T> = Omit<T, '$typeName' | '$unknown'>;
export type BudgetInit = Plain<MessageInitShape<typeof BudgetChangeSchema>>;
export type SubtreeBudgetInit = Plain<MessageInitShape<typeof SubtreeBudgetSchema>>;
export type PlanInit = Plain<MessageInitShape<typeof PlanEditSchema>>;
export type ForkEditInit = Plain<MessageInitShape<typeof ForkEditSchema>>;

/** An empty `nodeId` means the whole run. */
export type Action =
  | { kind: 'pause'; nodeId: string; now: boolean }
  | { kind: 'resume'; nodeId: string }
  | { kind: 'guide'; nodeId: string; text: string; subtree: boolean; restart: boolean }
  | { kind: 'stop'; nodeId: string; discard: boolean }
  | { kind: 'retry'; nodeId: string; guidance: string; model: string; budget?: SubtreeBudgetInit }
  | { kind: 'plan'; nodeId: string; plan: PlanInit }
  | { kind: 'budget'; nodeId: string; change: BudgetInit }
  | { kind: 'fork'; atSeq: bigint; edits: ForkEditInit[]; displayName: string };

/** How an action is sent: to preview it, or to do it. */
export interface Sent {
  validateOnly: boolean;
  requestId?: string;
  /** The seq of the preview that was confirmed. */
  expectedSeq?: bigint;
}

export interface Outcome {
  /** The last event once it was carried out. */
  seq: number;
  preview: CommandPreview | undefined;
  /** The fork that does it, if there is one. */
  forkRunId: string | undefined;
  /**
   * Documents of projects that have changed since: how many, and the first ones. The fork reads them as they are today.
   */
  changedDocuments: { count: number; ids: readonly string[] };
}

const ROLES = ['plan', 'execute', 'aggregate', 'research', 'pick'] as const;

/** The role calls of a preview, with those of each role in words. */
export function callsOf(preview: CommandPreview): { sum: number; words: string } {
  const found = ROLES.map((role) => ({ n: preview.calls?.[role] ?? 0, role })).filter(({ n }) => n > 0);
  return {
    sum: found.reduce((sum, { n }) => sum + n, 0),
    words: found.map(({ n, role }) => `${n} ${role}`).join(', '),
  };
}
