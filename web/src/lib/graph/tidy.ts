// Lays out a tree from left to right: each node in the column after its parent's, parents in the middle of their
// children, siblings in order of creation. Subtrees are packed: the next one begins where the outline of those above
// it ends in each column, after Reingold and Tilford ("Tidier Drawings of Trees", 1981). It is pure, so it runs in the
// worker and in tests; iterative, so depth is not limited; and O(n), because the shorter outline is merged into the
// longer one.
//
// A family of leaves may stand as a grid of several columns, which saves rows. `tidy` makes one layout for a given
// number of columns; `best` chooses the number by the room there is.

export const CARD_WIDTH = 248;
export const CARD_HEIGHT = 92;
const GAP_X = 52;
export const GAP_Y = 20;
/** Extra space between nodes that are not siblings. */
const GAP_FAMILY = 40;
/** Extra space above a band, for its name. */
const GAP_BAND = 24;
export const COLUMN = CARD_WIDTH + GAP_X;
export const ROW = CARD_HEIGHT + GAP_Y;
/** The most columns of a family of leaves. */
const MOST_COLUMNS = 3;
/** A column narrower than this, in pixels, costs more than a row that is lower. */
const NARROW_PX = 150;

export interface Layout {
  /** The top of each node, the root's being 0. */
  ys: Float64Array;
  /** The column of each node, the root's being 0. */
  columns: Int32Array;
  /** The columns of the grid in which the children of a node stand; 0 for one below the other. */
  grids: Uint8Array;
  /** The most columns of a family of leaves that it was made for. */
  most: number;
}

/** In pixels. */
export interface Size {
  width: number;
  height: number;
}

/** An outline by column, the last entry being the root's column. `shift` is to be added to each number. */
interface Outline {
  tops: number[];
  bottoms: number[];
  shift: number;
}

/**
 * `parents[i]` is the parent's place in the same list, -1 for the root, and smaller than `i`. `most` is the most
 * columns of a family of leaves. `cells` may give column and row of each leaf within its family, -1 for none.
 * `breaks` is 1 for each node that stands below the name of its band.
 */
export function tidy(parents: Int32Array, most = 1, cells?: Int32Array, breaks?: Uint8Array): Layout {
  const n = parents.length;
  const ys = new Float64Array(n);
  const columns = new Int32Array(n);
  const grids = new Uint8Array(n);
  const { first, next } = siblings(parents);
  const outlines = new Array<Outline | undefined>(n);
  // Places relative to the parent, bottom-up: a child always stands after its parent in the list.
  for (let i = n - 1; i >= 0; i--) {
    const family: number[] = [];
    for (let child = first[i]!; child >= 0; child = next[child]!) family.push(child);
    const isFlat = family.length > 0 && family.every((child) => first[child]! < 0);
    const hasCells = isFlat && cells !== undefined && family.every((child) => cells[2 * child]! >= 0);
    const wide = hasCells ? 2 : isFlat && family.length > 3 ? Math.min(most, Math.ceil(family.length / 3)) : 1;
    const outline = wide > 1 ? grid(family, wide, hasCells ? cells : undefined) : stack(family);
    outline.tops.push(-outline.shift);
    outline.bottoms.push(CARD_HEIGHT - outline.shift);
    outlines[i] = outline;
  }
  for (let i = 1; i < n; i++) {
    ys[i]! += ys[parents[i]!]!;
    columns[i]! += columns[parents[i]!]! + 1;
  }
  return { ys, columns, grids, most };

  /** The space above a node for the name of its band. */
  function named(node: number | undefined): number {
    return node !== undefined && breaks?.[node] === 1 ? GAP_BAND : 0;
  }

  /** Places leaves side by side. The column of each is kept relative to the first one. */
  function grid(family: number[], wide: number, given: Int32Array | undefined): Outline {
    let rows = 0;
    let across = 0;
    let gaps = 0;
    let next = 0;
    const above = named(family[0]);
    for (const child of family) {
      // Each band begins a row.
      if (next > 0 && given === undefined && named(child) > 0)
        [next, gaps] = [Math.ceil(next / wide) * wide, gaps + GAP_BAND];
      const column = given === undefined ? next % wide : given[2 * child]!;
      const row = given === undefined ? Math.floor(next / wide) : given[2 * child + 1]!;
      next += 1;
      columns[child] = column;
      ys[child] = row * ROW + gaps;
      rows = Math.max(rows, row + 1);
      across = Math.max(across, column + 1);
    }
    const middle = ((rows - 1) * ROW + gaps) / 2;
    for (const child of family) ys[child]! -= middle;
    grids[parents[family[0]!]!] = Math.min(255, across);
    const tops = new Array<number>(across).fill(-middle - above);
    return { tops, bottoms: tops.map((y) => y + above + rows * ROW - GAP_Y + gaps), shift: 0 };
  }

  /** Places subtrees below each other. */
  function stack(family: number[]): Outline {
    let whole: Outline = { tops: [], bottoms: [], shift: 0 };
    for (const child of family) {
      const below = outlines[child]!;
      outlines[child] = undefined;
      const by = apart(whole, below) + (child === family[0] ? 0 : named(child));
      ys[child] = by;
      below.shift += by;
      whole = merged(whole, below);
    }
    if (whole.tops.length > 0) whole.tops[whole.tops.length - 1]! -= named(family[0]);
    const last = family.at(-1);
    const middle = last === undefined ? 0 : ys[last]! / 2;
    for (const child of family) ys[child]! -= middle;
    whole.shift -= middle;
    return whole;
  }
}

/** How far the second outline must be moved down to stand below the first. */
function apart(above: Outline, below: Outline): number {
  const common = Math.min(above.tops.length, below.tops.length);
  let by = 0;
  for (let c = 1; c <= common; c++) {
    const gap = c === 1 ? GAP_Y : GAP_FAMILY;
    const free = above.bottoms[above.bottoms.length - c]! + above.shift + gap;
    by = Math.max(by, free - below.tops[below.tops.length - c]! - below.shift);
  }
  return by;
}

/** The outline of both, made of the longer one. */
function merged(above: Outline, below: Outline): Outline {
  const isLonger = above.tops.length >= below.tops.length;
  const [whole, other] = isLonger ? [above, below] : [below, above];
  const by = other.shift - whole.shift;
  const [into, from] = isLonger ? [whole.bottoms, other.bottoms] : [whole.tops, other.tops];
  for (let c = 1; c <= from.length; c++) into[into.length - c] = from[from.length - c]! + by;
  return whole;
}

/** The layout that shows most in a room, with the fewest columns that do. */
export function best(parents: Int32Array, room: Size, cells?: Int32Array, breaks?: Uint8Array): Layout {
  let chosen = tidy(parents, 1, cells, breaks);
  let most = scale(chosen, room);
  for (let columns = 2; columns <= MOST_COLUMNS && most < 1; columns++) {
    const other = tidy(parents, columns, cells, breaks);
    const shown = scale(other, room);
    if (shown > most * 1.1) [chosen, most] = [other, shown];
  }
  return chosen;
}

/** How large the rows are when all of it is shown, 1 at most; less if the columns would be narrow. */
function scale({ ys, columns }: Layout, { width, height }: Size): number {
  let [top, bottom, across] = [0, 0, 0];
  for (let i = 0; i < ys.length; i++) {
    top = Math.min(top, ys[i]!);
    bottom = Math.max(bottom, ys[i]!);
    across = Math.max(across, columns[i]!);
  }
  const column = (width / (across * COLUMN + CARD_WIDTH)) * CARD_WIDTH;
  return Math.min(1, height / (bottom - top + CARD_HEIGHT)) * Math.min(1, (column / NARROW_PX) ** 2);
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
