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
  const children = new Map<string | undefined, DiffRow[]>();
  for (const row of kept) {
    if (!children.has(row.parentId)) children.set(row.parentId, []);
    children.get(row.parentId)!.push(row);
  }
  const below = (parentId: string | undefined, level: number): CompareEntry[] => {
    const siblings = children.get(parentId) ?? [];
    return siblings.flatMap((row, i) => {
      const entry: CompareEntry = { id: row.id, parentId, level, place: i + 1, siblings: siblings.length, row };
      if (children.has(row.id)) entry.expanded = !collapsed.has(row.id);
      return entry.expanded ? [entry, ...below(row.id, level + 1)] : [entry];
    });
  };
  return below(undefined, 1);
}

/** What assistive technology calls a row. */
export function entryName({ row }: CompareEntry): string {
  const words = [LOOKS[row.comparison].label, row.title.slice(0, 200), changes(row).replaceAll(' · ', ', ')];
  if (row.below > 0) words.push(`${row.below} differ below`);
  return words.filter((word) => word !== '').join(', ');
}
