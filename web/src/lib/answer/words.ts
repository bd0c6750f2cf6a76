// What the page of an answer says about it, in plain words.

import { cost, count, date, number } from '../format';
import type { Counts, Verification } from '../projection/model';
import type { Projection } from '../projection/projection';
import { limitWords, reasonWords } from '../reasons';

const REASONS: Record<string, string> = {
  'no source': 'they cite no document',
  'rate limit': 'the model had reached its rate limit',
  'the quote or the statement is too short to identify a passage': 'their quotes are too short to be looked up',
};
const whyWords = (reason: string): string => {
  const limit = /^(?:budget )?(max[A-Z]\w+)$/.exec(reason)?.[1];
  return REASONS[reason] ?? (limit === undefined ? reasonWords(reason) : `${limitWords(limit)} is reached`);
};

/**
 * How far a run came that a budget has stopped, such as `stopped at $0.50, 23 of 40 parts answered`. The command line
 * says the same. Parts are the nodes that divide no work. Undefined for other reasons.
 */
export function stoppedWords(graph: Projection, reason: string): string | undefined {
  const budget = /^budget (max\w+) is used up/.exec(reason)?.[1];
  const root = graph.nodes[0];
  if (budget === undefined || root === undefined) return undefined;
  const { inputTokens, outputTokens, costMicros, toolCalls } = root.subtreeUsage;
  const at: Record<string, string> = {
    maxCostMicros: cost(costMicros),
    maxTokens: count(inputTokens + outputTokens, 'token'),
    maxToolCalls: count(toolCalls, 'tool call'),
    maxWallClockMs: 'the end of its time',
  };
  if (at[budget] === undefined) return undefined;
  return `stopped at ${at[budget]}, ${partsWords(graph)} answered`;
}

/** Parts are the nodes that divide no work. */
function partsWords(graph: Projection): string {
  const parts = graph.nodes.filter(({ id }) => !graph.hasChildren(id));
  const answered = parts.filter(({ status }) => status === 'completed').length;
  return `${number(answered)} of ${count(parts.length, 'part')}`;
}

/** That a run waits for the quota of its provider, and how far it came. */
export const quotaWords = (graph: Projection, until: number): string =>
  `Waits for the quota until ${date(until)}; ${partsWords(graph)} done. It goes on by itself, or when somebody resumes it.`;

/** What of an answer is doubted or was not checked, and why; one sentence each. */
export function checkWords(counts: Counts | undefined, verification: Verification | undefined): string[] {
  const failed = verification?.notChecked;
  const said: string[] = [];
  if (failed !== undefined) said.push(`Nobody has checked this answer as a whole: ${whyWords(failed)}.`);
  if (counts === undefined) return said;
  if (counts.notFound > 0) {
    const what = count(counts.notFound, 'statement has quotes', 'statements have quotes');
    said.push(`${what} that were not found in their sources; underlined in the text.`);
  }
  const { contradicted = 0 } = counts;
  if (contradicted > 0)
    said.push(
      `${count(contradicted, 'statement says', 'statements say')} something else than a quote; underlined in the text.`,
    );
  if (counts.notChecked > 0) {
    const why = (counts.reasons ?? []).map(whyWords).join('; ');
    said.push(
      `${count(counts.notChecked, 'statement was', 'statements were')} not checked${why === '' ? '' : `: ${why}`}.`,
    );
  }
  return said;
}
