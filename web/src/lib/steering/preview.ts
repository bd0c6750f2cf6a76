// What an action would do, in a sentence.

import type { CommandPreview } from '../../gen/treeagent/v1/steering_pb';
import { cost, number } from '../format';
import { callsOf, type Action } from './actions';
import { count } from '../format';

/** Actions that do work again. */
const AGAIN: ReadonlySet<Action['kind']> = new Set(['retry', 'fork']);

/** Such as `Re-runs 3 nodes, about 7 calls (…), about 12,000 tokens, about $0.12; reuses 41.` */
export function previewWords(kind: Action['kind'], preview: CommandPreview): string {
  const calls = callsOf(preview);
  const parts = [`${AGAIN.has(kind) ? 'Re-runs' : 'Concerns'} ${count(preview.nodeCount, 'node')}`];
  if (preview.stoppedCalls > 0) parts.push(`stops ${count(preview.stoppedCalls, 'call')} in flight`);
  parts.push(calls.sum === 0 ? 'no calls' : `about ${count(calls.sum, 'call')} (${calls.words})`);
  if (preview.tokens > 0n) parts.push(`about ${number(Number(preview.tokens))} tokens`);
  if (preview.costMicros > 0n) parts.push(`about ${cost(Number(preview.costMicros))}`);
  const shared = kind === 'fork' ? ` Shares the log up to event ${number(Number(preview.seq))}.` : '';
  return `${parts.join(', ')}; reuses ${number(preview.reusedNodes)}.${shared}`;
}
