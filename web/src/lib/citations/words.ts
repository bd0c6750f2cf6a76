// What the check of a citation found, in words.

import { Verdict, type CitedClaim } from '../../gen/treeagent/v1/citations_pb';
import type { Counts, Verification } from '../projection/model';
import type { Place } from './passage';

/** What a citation names that names no document. */
export const NO_DOCUMENT = '00000000-0000-0000-0000-000000000000';

const WORDS: Record<Verdict, string> = {
  [Verdict.UNSPECIFIED]: 'not checked',
  [Verdict.VERIFIED]: 'verified',
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

/** How far the statements of a text were checked, as the first line of an answer says it. */
export function countWords(counts: Counts, verification?: Verification): string {
  const failed = verification?.notChecked;
  const supported = failed === undefined ? counts.supported : 0;
  const notChecked = counts.notChecked + counts.supported - supported;
  const known = counts.reasons ?? [];
  const reasons = failed === undefined || notChecked === 0 || known.includes(failed) ? known : [...known, failed];
  const what = `${supported} ${supported === 1 ? 'statement' : 'statements'} supported`;
  const why = reasons.length > 0 ? ` (${reasons.join(', ')})` : '';
  const nothing = counts.total === 0 ? 'Nothing is cited: ' : '';
  return `${nothing}${what}, ${counts.doubted} doubted, ${notChecked} not checked${why}`;
}

export const isVerified = ({ citation }: CitedClaim): boolean => citation?.verdict === Verdict.VERIFIED;

export function placeOf({ citation }: CitedClaim): Place | undefined {
  const passage = citation?.passage;
  return passage && { offset: Number(passage.offset), bytes: Number(passage.bytes), sha256: passage.sha256 };
}
