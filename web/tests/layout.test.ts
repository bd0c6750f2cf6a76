import { describe, expect, it } from 'vitest';
import { CARD_HEIGHT, GAP_Y, tidy } from '../src/lib/graph/tidy';

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

const lay = (parents: number[]): Float64Array => tidy(Int32Array.from(parents));

describe('the layout', () => {
  it('never lets two cards of a column overlap, and keeps siblings in order of creation', () => {
    for (let seed = 1; seed < 30; seed++) {
      const parents = tree(220, seed);
      const ys = lay(parents);
      const depth = depths(parents);
      const columns = new Map<number, number[]>();
      depth.forEach((d, i) => columns.set(d, [...(columns.get(d) ?? []), ys[i]!]));
      for (const column of columns.values()) {
        const sorted = column.toSorted((a, b) => a - b);
        sorted.slice(1).forEach((y, i) => expect(y - sorted[i]!).toBeGreaterThanOrEqual(CARD_HEIGHT + GAP_Y - 1e-6));
      }
      parents.forEach((p, i) => {
        if (p < 0) return;
        const older = parents.findLastIndex((q, j) => q === p && j < i);
        expect(ys[i]!).toBeGreaterThan(older < 0 ? ys[p]! - 1e-6 : ys[older]!);
      });
    }
  });

  it('moves nothing but later siblings of the ancestors when a child is added, and those as a whole', () => {
    for (let seed = 1; seed < 30; seed++) {
      const parents = tree(120, seed);
      const before = lay(parents);
      for (const under of [0, 5, 40, 80, 119]) {
        const after = lay([...parents, under]);
        const path = new Set<number>();
        for (let a = under; a >= 0; a = parents[a]!) path.add(a);
        // For every node, the child of the ancestor through which it is reached.
        const branch = parents.map((_, i) => {
          let at = i;
          while (at > 0 && !path.has(at) && !path.has(parents[at]!)) at = parents[at]!;
          return at;
        });
        parents.forEach((_, i) => {
          const moved = after[i]! - before[i]!;
          if (path.has(i)) expect(moved).toBe(0);
          else {
            expect(moved).toBeCloseTo(after[branch[i]!]! - before[branch[i]!]!, 6);
            const onPath = [...path].find((a) => parents[a] === parents[branch[i]!]);
            if (onPath === undefined || branch[i]! < onPath) expect(moved).toBe(0);
          }
        });
      }
    }
  });

  it('lays out a depth of 1,000 and more, and a fan-out of 10,000', () => {
    const deep = lay(Array.from({ length: 5001 }, (_, i) => i - 1));
    expect(deep.every((y) => y === 0)).toBe(true);
    const wide = lay(Array.from({ length: 10_001 }, (_, i) => (i === 0 ? -1 : 0)));
    expect(wide[10_000]).toBe(9_999 * (CARD_HEIGHT + GAP_Y));
  });

  it('lays out nothing and one', () => {
    expect(lay([])).toHaveLength(0);
    expect([...lay([-1])]).toEqual([0]);
  });
});
