// Checks of the form for a new run. The limits are those of the API.

import type { EstimateRunResponse } from '../gen/treeagent/v1/run_service_pb';
import type { Failure } from './api/failure';
import { cost, number } from './format';

const OBJECTIVE_BYTES = 16_384;
const NAME_BYTES = 256;

/** What is wrong with the length of a text; empty when nothing is. */
export function tooLong(text: string, most: number): string {
  const bytes = new TextEncoder().encode(text).length;
  return bytes > most ? `Shorten it: it has ${bytes} bytes, and ${most} are allowed.` : '';
}

export function checkObjective(text: string): string {
  return text.trim() === ''
    ? 'Describe what the run should find out or create.'
    : tooLong(text.trim(), OBJECTIVE_BYTES);
}

/** What is wrong with a name; empty when nothing is. */
export function checkName(text: string): string {
  return tooLong(text.trim(), NAME_BYTES) || (/\p{Cc}/u.test(text) ? 'It must not contain control characters.' : '');
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
