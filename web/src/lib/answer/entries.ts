// What the pills of an answer lead to: which citation stands where, and down which chain its source is found.

import type { CitedClaim } from '../../gen/treeagent/v1/citations_pb';
import { findAll, fold } from '../citations/fold';
import type { Place } from '../citations/passage';
import { isFound, placeOf } from '../citations/words';
import type { Note } from '../markdown/notes';
import type { Part } from '../markdown/reader.svelte';

/** What a pill leads to. */
export interface Entry {
  /** The number that the text gives it. */
  number: number;
  /** From the claim of the answer down to the one that cites the source; empty if no citation is known. */
  chain: CitedClaim[];
  /** The source; empty if none is known. */
  documentId: string;
  quote: string;
  passage: Place | undefined;
  /** What the text calls it. */
  name: string;
}

export interface Claimed {
  to: number;
  claim: CitedClaim;
}

/** Where the claims of a part of the text end, in its order. */
export function endsOf(part: Part, claims: readonly CitedClaim[]): Claimed[] {
  if (claims.length === 0) return [];
  const folded = fold(part.text);
  const found = claims.flatMap((claim) =>
    findAll(folded, claim.citation?.claim ?? '').map(({ to }) => ({ to: to + part.from, claim })),
  );
  return found.sort((a, b) => a.to - b.to);
}

/** Other marks, and what ends a quotation: no words. */
const WORDS = /[\p{L}\p{N}]/u;

/** The claim that ends before a mark of a part, with no words between them. */
export function claimBefore({ text, from }: Part, ends: readonly Claimed[], at: number): CitedClaim | undefined {
  const near = ends.findLast(({ to }) => to <= at + 1);
  const between = near && text.slice(near.to - from, at - from).replace(/\[\^\d+\]/g, '');
  return between === undefined || WORDS.test(between) ? undefined : near?.claim;
}

/** The citation of a footnote: it has the document and the words of it. */
export function claimOf(note: Note, claims: readonly CitedClaim[]): CitedClaim | undefined {
  const words = fold(note.quote ?? '').text.trim();
  const same = claims.filter(({ citation }) => citation?.documentId === note.document);
  return same.find(({ citation }) => fold(citation?.quote ?? '').text.trim() === words);
}

/** The first way down from a claim to a source. */
export function chainOf(claim: CitedClaim, byIndex: ReadonlyMap<bigint, CitedClaim>): CitedClaim[] {
  const chain = [claim];
  for (let next = byIndex.get(claim.restsOn[0] ?? -1n); next !== undefined && !chain.includes(next);) {
    chain.push(next);
    next = byIndex.get(next.restsOn[0] ?? -1n);
  }
  return chain;
}

/** True if the whole chain is known. */
export const isWhole = (chain: readonly CitedClaim[]): boolean => (chain.at(-1)?.restsOn.length ?? 0) === 0;

export function entryOf(number: number, name: string, chain: CitedClaim[], note?: Note): Entry {
  const last = chain.at(-1);
  const citation = last?.citation;
  const holds = chain.length > 0 && isFound(chain[0]!);
  return {
    number,
    name,
    chain,
    documentId: citation?.documentId ?? note?.document ?? '',
    passage: last && placeOf(last),
    quote: (holds ? citation?.quote : chain[0]?.citation?.quote) ?? note?.quote ?? '',
  };
}

/** The headings above a place of a document, the highest first. */
export function headingsAbove(text: string, at: number): string[] {
  const above: string[] = [];
  let fence = '';
  for (const line of text.slice(0, at).split('\n')) {
    const marks = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1];
    if (marks !== undefined) fence = fence === '' ? marks : marks.startsWith(fence) ? '' : fence;
    const heading = fence === '' ? /^(#{1,6})\s+(.*?)(?:\s+#+)?\s*$/.exec(line) : null;
    if (heading === null) continue;
    above.length = Math.min(above.length, heading[1]!.length - 1);
    above[heading[1]!.length - 1] = heading[2]!;
  }
  return above.filter((one) => one !== undefined && one !== '');
}
