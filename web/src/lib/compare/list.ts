// The nodes of a comparison as rows of a list.

import type { TreeEntry } from '../tree-entry';
import type { DiffRow } from './rows';
import { changes, LOOKS } from './words';

export interface CompareEntry extends TreeEntry {
  row: DiffRow;
}

/**
 * The rows to list: without those in `collapsed`, and with `onlyDifferences` those that differ or have such ones below.
 */
export function compareEntries(
  rows: readonly DiffRow[],
  collapsed: ReadonlySet<string>,
  onlyDifferences: boolean,
): CompareEntry[] {
  const kept = onlyDifferences ? rows.filter((row) => row.comparison !== 'same' || row.below > 0) : rows;
  const children = new Map<string, number>();
  const place = new Map<string, number>();
  for (const { id, parentId } of kept) {
    const n = (children.get(parentId ?? '') ?? 0) + 1;
    children.set(parentId ?? '', n);
    place.set(id, n);
  }
  const hidden = new Set<string>();
  return kept.flatMap((row) => {
    const { id, parentId, depth } = row;
    if (parentId !== undefined && (hidden.has(parentId) || collapsed.has(parentId))) {
      hidden.add(id);
      return [];
    }
    const entry: CompareEntry = {
      id,
      parentId,
      level: depth + 1,
      place: place.get(id)!,
      siblings: children.get(parentId ?? '')!,
      row,
    };
    return [children.has(id) ? { ...entry, expanded: !collapsed.has(id) } : entry];
  });
}

/** What assistive technology calls a row. */
export function entryName({ row }: CompareEntry): string {
  const words = [LOOKS[row.comparison].label, row.title.slice(0, 200), changes(row).replaceAll(' · ', ', ')];
  if (row.below > 0) words.push(`${row.below} differ below`);
  return words.filter((word) => word !== '').join(', ');
}
