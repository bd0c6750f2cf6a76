// Guidance as it is typed. The limit is that of the API.

import { tooLong } from '../new-run';

const BYTES = 8192;

/** What is wrong with guidance; empty when nothing is, or when it is left out. */
export function guidanceProblem(text: string): string {
  return tooLong(text.trim(), BYTES);
}
