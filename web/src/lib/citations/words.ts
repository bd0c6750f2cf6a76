// What the check of a citation found, in words.

import { Verdict, type CitedClaim } from '../../gen/treeagent/v1/citations_pb';
import type { Place } from './passage';

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

/** What is wrong with a claim whose citation does not hold. */
export const unverified = (verdict: Verdict): string => `unverified claim: ${verdictWords(verdict)}`;

export const isVerified = ({ citation }: CitedClaim): boolean => citation?.verdict === Verdict.VERIFIED;

export function placeOf({ citation }: CitedClaim): Place | undefined {
  const passage = citation?.passage;
  return passage && { offset: Number(passage.offset), bytes: Number(passage.bytes), sha256: passage.sha256 };
}
