// Lays out a tree: the root on the left, children to the right of their parent, the first child in its parent's row and
// the others below it in order of creation, each below the whole subtree of the one before. It is pure, so it runs in
// the worker and in tests; iterative, so depth is not limited; and O(n).
//
// Adding a child moves little: a subtree's shape depends on that subtree alone, and it begins below everything older.
// So only later siblings (of the child and its ancestors) move, each as a whole, straight up or down. The root, the
// ancestors and everything older stay where they are. Packing subtrees into each other's gaps, as other layouts do,
// would save rows in lopsided trees, but a subtree that grows deeper would then move its ancestors.

export const CARD_WIDTH = 248;
export const CARD_HEIGHT = 92;
export const GAP_X = 72;
export const GAP_Y = 20;
/** Extra space below a subtree. */
export const GAP_FAMILY = 40;
export const COLUMN = CARD_WIDTH + GAP_X;

/**
 * `parents[i]` is the parent's place in the same list, -1 for the root, and smaller than `i`. Returns the top of each,
 * the root's being 0. The horizontal place follows from the depth.
 */
export function tidy(parents: Int32Array): Float64Array {
  const n = parents.length;
  const ys = new Float64Array(n);
  const heights = new Float64Array(n);
  const { first, next } = siblings(parents);
  // Places relative to the parent, bottom-up: a child always stands after its parent in the list.
  for (let i = n - 1; i >= 0; i--) {
    let below = 0;
    for (let child = first[i]!; child >= 0; child = next[child]!) {
      ys[child] = below;
      below += heights[child]! + (first[child]! < 0 ? GAP_Y : GAP_FAMILY);
      heights[i] = ys[child]! + heights[child]!;
    }
    if (first[i]! < 0) heights[i] = CARD_HEIGHT;
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
