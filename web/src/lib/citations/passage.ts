// Where a passage stands in the text of a document. The log counts bytes of UTF-8, a string counts units of UTF-16.

import { findAll, fold, type Range } from './fold';
import { sha256 } from './sha256';

/** A place in a document: the bytes of a verified citation, or words whose place nobody has checked. */
export interface Target {
  passage?: Place;
  quote?: string;
}

export interface Place {
  offset: number;
  bytes: number;
  /** Of the passage, in hexadecimal digits. */
  sha256: string;
}

/** What a document says today about a target. */
export type Located =
  /** The passage stands where it stood. */
  | { state: 'there'; range: Range }
  /** It has changed, and the quoted words stand elsewhere now. */
  | { state: 'moved'; range: Range }
  /** It has changed, and the quoted words are not there, or not known. */
  | { state: 'changed' }
  /** There was no passage; the words stand there. */
  | { state: 'found'; range: Range }
  /** There was no passage; the words do not stand there. */
  | { state: 'absent' };

/** The units of a text at some of its bytes; undefined if it ends before, or the bytes divide a character. */
export function unitsAt(text: string, offset: number, bytes: number): Range | undefined {
  let byte = 0;
  let from = -1;
  for (let at = 0; ;) {
    if (byte === offset) from = at;
    if (from >= 0 && byte >= offset + bytes) return byte === offset + bytes ? { from, to: at } : undefined;
    if (at >= text.length || (from < 0 && byte > offset)) return undefined;
    const code = text.codePointAt(at)!;
    byte += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    at += code < 0x10000 ? 1 : 2;
  }
}

export function locate(text: string, { passage, quote = '' }: Target): Located {
  if (passage !== undefined) {
    const range = unitsAt(text, passage.offset, passage.bytes);
    if (range !== undefined && sha256(new TextEncoder().encode(text.slice(range.from, range.to))) === passage.sha256) {
      return { state: 'there', range };
    }
  }
  const [range] = quote === '' ? [] : findAll(fold(text), quote, 1);
  if (range === undefined) return { state: passage === undefined ? 'absent' : 'changed' };
  return { state: passage === undefined ? 'found' : 'moved', range };
}

/** A passage as part of an address. */
export const placeToText = ({ offset, bytes, sha256: hash }: Place): string => `${offset}.${bytes}.${hash}`;

export function placeFromText(text: string): Place | undefined {
  const [, offset, bytes, hash] = /^(\d{1,15})\.(\d{1,15})\.([0-9a-f]{64})$/.exec(text) ?? [];
  return hash === undefined ? undefined : { offset: Number(offset), bytes: Number(bytes), sha256: hash };
}

/** The part of a long text that is shown: the marked part, and at most so much before and behind it. */
export function around(text: string, range: Range, most: number): Range {
  const side = Math.floor(most / 2);
  const begin = Math.max(0, Math.min(range.from - side, text.length - most));
  const from = isInside(text, begin) ? begin + 1 : begin;
  const end = Math.min(text.length, Math.max(from + most, range.to));
  return { from, to: isInside(text, end) ? end - 1 : end };
}

/** True between the two halves of a character. */
const isInside = (text: string, at: number): boolean =>
  /[\ud800-\udbff]/.test(text[at - 1] ?? '') && /[\udc00-\udfff]/.test(text[at] ?? '');
