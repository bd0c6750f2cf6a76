// What the check of a citation found, in words.

import { Origin, Support, Verdict, type Citation, type CitedClaim } from '../../gen/treeagent/v1/citations_pb';
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
  [Verdict.DOUBTED]: 'the quote says something else',
};

/** A verdict that this page does not know is none. */
export const verdictWords = (verdict: Verdict): string => WORDS[verdict] ?? WORDS[Verdict.UNSPECIFIED];

const SUPPORT: Record<Support, string> = {
  [Support.UNSPECIFIED]: '',
  [Support.SUPPORTED]: 'supports the statement',
  [Support.OPEN]: 'says only a part of the statement',
  [Support.COMPUTED]: 'not compared: the statement is computed',
  [Support.LANGUAGE]: 'not compared: the source is in another language',
};

/** What is known of a citation beside its verdict: what its quote says of the statement, and who has found it. */
export function moreWords({ doubt, support, origin }: Citation): string {
  const said = doubt || (SUPPORT[support ?? Support.UNSPECIFIED] ?? '');
  const found = origin === Origin.FOUND ? 'found afterwards' : '';
  return [said, found].filter((one) => one !== '').join('; ');
}

/** What is to be known of a claim whose citation does not hold. What could not be checked is not doubtful. */
export const unverified = ({ verdict, doubt }: Citation): string =>
  `${isDoubted(verdict) ? 'doubted claim' : 'claim not checked'}: ${doubt || verdictWords(verdict)}`;
const isDoubted = (verdict: Verdict): boolean => verdict === Verdict.NOT_FOUND || verdict === Verdict.DOUBTED;

/** What the check of quotes found in a text, as the first line of an answer says it. */
export function countWords(counts: Counts): string {
  const { total, found, notFound, supported, contradicted = 0, notChecked, reasons = [] } = counts;
  const all: [number, string][] = [
    [supported, 'supported by their quotes'],
    [found - supported - contradicted, 'with quotes found in their sources'],
    [contradicted, 'contradicted by a quote'],
    [notFound, 'with quotes not found'],
    [notChecked, 'not checked'],
  ];
  const parts = all.filter(([n]) => n > 0).map(([n, what]) => `${n} ${what}`);
  if (total > 0 && found === total && parts.length === 1 && supported + contradicted === 0)
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
/** The quote stands in its source, whatever it says. */
export const isFound = (one: CitedClaim): boolean => isVerified(one) || one.citation?.verdict === Verdict.DOUBTED;

export function placeOf({ citation }: CitedClaim): Place | undefined {
  const passage = citation?.passage;
  return passage && { offset: Number(passage.offset), bytes: Number(passage.bytes), sha256: passage.sha256 };
}
