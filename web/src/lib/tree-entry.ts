// A row of a tree that is shown as a list, and what the keyboard does in one.

export interface TreeEntry {
  id: string;
  parentId: string | undefined;
  /** From 1. */
  level: number;
  /** 1-based index among its siblings. */
  place: number;
  siblings: number;
  /** Undefined for a leaf. */
  expanded?: boolean;
}

/** What a key asks for. */
export type TreeAct = { focus: number } | { toggle: string; open: boolean } | { choose: string };

const PAGE = 15;

/** What a key does while the row at `at` has the focus, as the ARIA tree pattern says; undefined if it does nothing. */
export function treeKey(key: string, rows: readonly TreeEntry[], at: number): TreeAct | undefined {
  const row = rows[at];
  if (row === undefined) return undefined;
  const to = (next: number): TreeAct => ({ focus: Math.max(0, Math.min(next, rows.length - 1)) });
  switch (key) {
    case 'ArrowDown':
      return to(at + 1);
    case 'ArrowUp':
      return to(at - 1);
    case 'PageDown':
      return to(at + PAGE);
    case 'PageUp':
      return to(at - PAGE);
    case 'Home':
      return to(0);
    case 'End':
      return to(rows.length - 1);
    case 'ArrowRight':
      if (row.expanded === undefined) return undefined;
      return row.expanded ? to(at + 1) : { toggle: row.id, open: true };
    case 'ArrowLeft': {
      if (row.expanded) return { toggle: row.id, open: false };
      const above = rows.findIndex((r) => r.id === row.parentId);
      return above < 0 ? undefined : to(above);
    }
    case 'Enter':
    case ' ':
      return { choose: row.id };
    default:
      return undefined;
  }
}
