import { describe, expect, it } from 'vitest';
import { best, CARD_HEIGHT, GAP_Y, ROW, tidy, type Layout } from '../src/lib/graph/tidy';

/** A repeatable random tree. */
function tree(n: number, seed: number): number[] {
  let s = seed;
  const random = (): number => (s = (s * 1_103_515_245 + 12_345) & 0x7fffffff) / 0x7fffffff;
  return Array.from({ length: n }, (_, i) => (i === 0 ? -1 : Math.floor(i * random() ** 1.5)));
}

function depths(parents: number[]): number[] {
  const out: number[] = [];
  for (const p of parents) out.push(p < 0 ? 0 : out[p]! + 1);
  return out;
}

const lay = (parents: number[], most = 1): Layout => tidy(Int32Array.from(parents), most);

/** No two cards of a layout overlap. */
function expectApart({ ys, columns }: Layout): void {
  const byColumn = new Map<number, number[]>();
  columns.forEach((c, i) => byColumn.set(c, [...(byColumn.get(c) ?? []), ys[i]!]));
  for (const column of byColumn.values()) {
    const sorted = column.toSorted((a, b) => a - b);
    sorted.slice(1).forEach((y, i) => expect(y - sorted[i]!).toBeGreaterThanOrEqual(CARD_HEIGHT + GAP_Y - 1e-6));
  }
}

describe('the layout', () => {
  it('never lets two cards overlap, in one column or in several', () => {
    for (let seed = 1; seed < 30; seed++) for (const most of [1, 2, 3]) expectApart(lay(tree(220, seed), most));
  });

  it('keeps siblings in order of creation, and parents in the middle of their children', () => {
    for (let seed = 1; seed < 30; seed++) {
      const parents = tree(220, seed);
      const { ys, columns } = lay(parents);
      const depth = depths(parents);
      expect([...columns]).toEqual(depth);
      parents.forEach((p, i) => {
        const older = parents.findLastIndex((q, j) => q === p && j < i);
        if (p >= 0 && older >= 0) expect(ys[i]!).toBeGreaterThan(ys[older]!);
        const kids = parents.flatMap((q, j) => (q === i ? [ys[j]!] : []));
        if (kids.length > 0) expect(ys[i]!).toBeCloseTo((kids[0]! + kids.at(-1)!) / 2, 6);
      });
    }
  });

  it('packs subtrees: a leaf beside a subtree needs no row of its own', () => {
    // A subtree of five leaves, and a sibling without children: both fit into five rows.
    const { ys } = lay([-1, 0, 0, 1, 1, 1, 1, 1]);
    expect(Math.max(...ys) - Math.min(...ys)).toBe(4 * ROW);
  });

  it('puts tall families of leaves side by side, by rows', () => {
    const { ys, columns, grids } = lay([-1, ...Array.from({ length: 7 }, () => 0)], 3);
    expect([...columns.slice(1)]).toEqual([1, 2, 3, 1, 2, 3, 1]);
    expect(ys[4]! - ys[1]!).toBe(ROW);
    expect(grids[0]).toBe(3);
    expect(ys[1]! + ys[7]!).toBe(0);
  });

  it('puts the tasks of homework into a grid of branches and iterations', () => {
    // Branch 0 has two tasks in its first iteration.
    const cells = Int32Array.from([-1, -1, 0, 0, 0, 1, 0, 2, 1, 0, 1, 2]);
    const { ys, columns, grids } = tidy(Int32Array.from([-1, 0, 0, 0, 0, 0]), 1, cells);
    expect([...columns]).toEqual([0, 1, 1, 1, 2, 2]);
    expect(ys[4]).toBe(ys[1]);
    expect(ys[5]).toBe(ys[3]);
    expect(grids[0]).toBe(2);
  });

  it('uses as many columns as show most', () => {
    const family = Int32Array.from([-1, ...Array.from({ length: 12 }, () => 0)]);
    expect(best(family, { width: 1100, height: 3000 }).most).toBe(1);
    expect(best(family, { width: 1100, height: 500 }).most).toBeGreaterThan(1);
    // There is no room beside the column.
    expect(best(family, { width: 330, height: 500 }).most).toBe(1);
  });

  it('lays out a depth of 1,000 and more, and a fan-out of 10,000', () => {
    const deep = lay(Array.from({ length: 5001 }, (_, i) => i - 1));
    expect(deep.ys.every((y) => y === 0)).toBe(true);
    expect(deep.columns[5000]).toBe(5000);
    const wide = lay(Array.from({ length: 10_001 }, (_, i) => (i === 0 ? -1 : 0)));
    expect(wide.ys[10_000]! - wide.ys[1]!).toBe(9_999 * ROW);
  });

  it('lays out nothing and one', () => {
    expect(lay([]).ys).toHaveLength(0);
    expect([...lay([-1]).ys]).toEqual([0]);
  });
});
