// Guidance as it is typed. The limit is that of the API.

const BYTES = 8192;

/** What is wrong with guidance; empty when nothing is, or when it is left out. */
export function guidanceProblem(text: string): string {
  const bytes = new TextEncoder().encode(text.trim()).length;
  return bytes > BYTES ? `Shorten it: it has ${bytes} bytes, and ${BYTES} are allowed.` : '';
}
