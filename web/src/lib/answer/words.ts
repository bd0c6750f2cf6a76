// What the page of an answer says about it, in plain words.

import { count } from '../format';
import type { Counts, Verification } from '../projection/model';
import { limitWords } from '../reasons';

const REASONS: Record<string, string> = {
  'no source': 'they cite no document',
  'rate limit': 'the model had reached its rate limit',
  'the quote or the statement is too short to identify a passage': 'their quotes are too short to be looked up',
};
const whyWords = (reason: string): string => {
  const limit = limitWords(reason);
  return REASONS[reason] ?? (limit === reason ? reason : `the check used up ${limit}`);
};

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
  if (counts.notChecked > 0) {
    const why = (counts.reasons ?? []).map(whyWords).join('; ');
    said.push(
      `${count(counts.notChecked, 'statement was', 'statements were')} not checked${why === '' ? '' : `: ${why}`}.`,
    );
  }
  return said;
}
