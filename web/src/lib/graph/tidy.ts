// Positions of a tree: root on the left, children to the right of their parent, the first child in its parent's row and
// the others below it in order of creation, as close as the outlines of their subtrees allow. Pure, so that it runs in
// the worker and in tests alike; iterative, so that depth is no limit; O(n), since two outlines are compared only as deep
// as the shallower one goes.
//
// What adding a child may move: a subtree's shape depends on that subtree alone, and it is placed below the siblings that
// came before it. So only siblings that come later (of the child's ancestors) move, each as a whole, straight up or
// down. The root, the ancestors and everything older stay where they are.

export const CARD_WIDTH = 248;
export const CARD_HEIGHT = 92;
export const GAP_X = 72;
export const GAP_Y = 20;
/** More room between cards that do not share their parent. */
export const GAP_FAMILY = 40;
export const COLUMN = CARD_WIDTH + GAP_X;

/** Outline of a subtree: for each level, from the deepest to its root's, its first and last row, less `base`. */
interface Outline {
  base: number;
  top: number[];
  bottom: number[];
}

/**
 * `parents[i]` is the parent's place in the same list, -1 for the root, and smaller than `i`. Returns the top of each,
 * the root's being 0. The horizontal place follows from the depth.
 */
export function tidy(parents: Int32Array): Float64Array {
  const n = parents.length;
  const ys = new Float64Array(n);
  const { first, next } = siblings(parents);
  const outlines: (Outline | undefined)[] = new Array<Outline | undefined>(n);
  // A node's place relative to its parent, bottom-up: a child always stands after its parent in the list.
  for (let i = n - 1; i >= 0; i--) {
    let merged: Outline | undefined;
    for (let child = first[i]!; child >= 0; child = next[child]!) {
      const outline = outlines[child]!;
      outlines[child] = undefined;
      if (merged === undefined) merged = outline;
      else {
        ys[child] = separation(merged, outline);
        merged = merge(merged, outline, ys[child]!);
      }
    }
    merged ??= { base: 0, top: [], bottom: [] };
    merged.top.push(-merged.base);
    merged.bottom.push(-merged.base);
    outlines[i] = merged;
  }
  for (let i = 1; i < n; i++) ys[i]! += ys[parents[i]!]!;
  return ys;
}

function siblings(parents: Int32Array): { first: Int32Array; next: Int32Array } {
  const first = new Int32Array(parents.length).fill(-1);
  const next = new Int32Array(parents.length).fill(-1);
  for (let i = parents.length - 1; i >= 1; i--) {
    next[i] = first[parents[i]!]!;
    first[parents[i]!] = i;
  }
  return { first, next };
}

/** How far below the family so far the next subtree must begin. */
function separation(above: Outline, below: Outline): number {
  const levels = Math.min(above.top.length, below.top.length);
  let least = -Infinity;
  for (let level = 1; level <= levels; level++) {
    const end = above.base + above.bottom[above.bottom.length - level]!;
    const start = below.base + below.top[below.top.length - level]!;
    least = Math.max(least, end - start + CARD_HEIGHT + (level === 1 ? GAP_Y : GAP_FAMILY));
  }
  return least;
}

function merge(above: Outline, below: Outline, offset: number): Outline {
  const levels = Math.min(above.top.length, below.top.length);
  below.base += offset;
  const [kept, other] = above.top.length >= below.top.length ? [above, below] : [below, above];
  const shift = other.base - kept.base;
  for (let level = 1; level <= levels; level++) {
    const k = kept.top.length - level;
    const o = other.top.length - level;
    if (kept === above) kept.bottom[k] = other.bottom[o]! + shift;
    else kept.top[k] = other.top[o]! + shift;
  }
  return kept;
}
