// What the check of a citation found, in words.

import { Verdict, type CitedClaim } from '../../gen/treeagent/v1/citations_pb';
import type { Counts, Result } from '../projection/model';
import type { Place } from './passage';

/** What a citation names that names no document. */
export const NO_DOCUMENT = '00000000-0000-0000-0000-000000000000';

const WORDS: Record<Verdict, string> = {
  [Verdict.UNSPECIFIED]: 'not checked',
  [Verdict.VERIFIED]: 'found in the source',
  [Verdict.NO_SOURCE]: 'no such source',
  [Verdict.NOT_FOUND]: 'not found in the source',
  [Verdict.TOO_SHORT]: 'quote too short',
  [Verdict.NO_CLAIM]: 'not in this document',
};

/** A verdict that this page does not know is none. */
export const verdictWords = (verdict: Verdict): string => WORDS[verdict] ?? WORDS[Verdict.UNSPECIFIED];

/** What is to be known of a claim whose citation does not hold. What could not be checked is not doubtful. */
export const unverified = (verdict: Verdict): string =>
  `${verdict === Verdict.NOT_FOUND ? 'doubted claim' : 'claim not checked'}: ${verdictWords(verdict)}`;

/** What the check of quotes found in a text, as the first line of an answer says it. */
export function countWords({ total, found, notFound, notChecked, reasons = [] }: Counts): string {
  const all: [number, string][] = [
    [found, 'with quotes found in their sources'],
    [notFound, 'with quotes not found'],
    [notChecked, 'not checked'],
  ];
  const parts = all.filter(([n]) => n > 0).map(([n, what]) => `${n} ${what}`);
  if (total > 0 && found === total && parts.length === 1)
    return total === 1 ? '1 quote, found in its source' : `${total} quotes, all found in their sources`;
  const list = parts.length > 0 ? `: ${parts.join(', ')}` : '';
  const why = reasons.length > 0 ? ` (${reasons.join(', ')})` : '';
  return `${total === 0 ? 'Nothing is cited' : 'Statements'}${list}${why}`;
}

/** True for an answer whose quotes are only the passages nearest to what was not found. */
export function isNotFound(result: Result | undefined): boolean {
  const payload = result?.jsonPayload as { missing?: unknown } | undefined;
  return typeof payload?.missing === 'string' && result?.successAssessment?.met === false;
}

export const isVerified = ({ citation }: CitedClaim): boolean => citation?.verdict === Verdict.VERIFIED;

export function placeOf({ citation }: CitedClaim): Place | undefined {
  const passage = citation?.passage;
  return passage && { offset: Number(passage.offset), bytes: Number(passage.bytes), sha256: passage.sha256 };
}
