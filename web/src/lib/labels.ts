// Labels of runs as people write them: `team=search, urgent`.

const MAX_LABELS = 32;
const KEY = /^[a-z0-9](?:[a-z0-9\-_./]{0,61}[a-z0-9])?$/;
const VALUE = /^[a-zA-Z0-9\-_./:@+]{0,128}$/;

/** The single labels of a text. */
export function labelTexts(text: string): string[] {
  return text.split(/[\s,]+/).filter((label) => label !== '');
}

/** Labels as a request holds them. A key alone has an empty value. */
export function toLabels(text: string): Record<string, string> {
  return Object.fromEntries(labelTexts(text).map(split));
}

/** Labels of a run, as they are shown. */
export const labelWords = (labels: Record<string, string>): string[] =>
  Object.entries(labels).map(([key, value]) => (value === '' ? key : `${key}=${value}`));

/** What is wrong with the labels that were written; empty when nothing is. */
export function checkLabels(text: string): string {
  const labels = labelTexts(text).map(split);
  if (labels.length > MAX_LABELS) return `Give at most ${MAX_LABELS} labels.`;
  const keys = new Set<string>();
  for (const [key, value] of labels) {
    if (!KEY.test(key))
      return `“${key}” cannot be a label: use at most 63 lower-case letters, digits and -_./, with a letter or digit at both ends.`;
    if (!VALUE.test(value))
      return `“${value}” cannot be the value of a label: use at most 128 letters, digits and -_./:@+.`;
    if (keys.has(key)) return `“${key}” is given twice.`;
    keys.add(key);
  }
  return '';
}

function split(label: string): [key: string, value: string] {
  const at = label.indexOf('=');
  return at < 0 ? [label, ''] : [label.slice(0, at), label.slice(at + 1)];
}
