// The layout of the tree: positions of the nodes, which of them are expanded, and sums over subtrees.
//
// Arrays are indexed in order of creation, in which a child follows its parent. So sums over subtrees
// take one pass from the end.

import { NODE_STATUSES, statusIndex } from '../projection/model';
import type { Projection } from '../projection/projection';
import { bandsOf } from './bands';
import { cellsOf } from './cells';
import type { LayoutRequest } from './layout.worker';
import { COLUMN, ROW, type Layout, type Size } from './tidy';

const KINDS = NODE_STATUSES.length;
const DONE = statusIndex('completed');
/** Nodes move as long as the camera does, so that they do not leave the view on the way. */
export const MOVE_MS = 350;
/** An edge is drawn in this time, then its card fades in. */
const EDGE_MS = 200;
const FADE_MS = 150;
/** Siblings that appear together follow each other after this time, up to so many. */
const NEXT_MS = 30;
const MOST_IN_TURN = 12;
/** A dot runs up the edge of a node that has completed for this time. */
const SPARK_MS = 450;
const MOST_SPARKS = 60;

export class Scene {
  graph: Projection | undefined;
  collapsed: ReadonlySet<string> = new Set();
  /** Nodes that only keep a place, and are not counted. */
  absent: ReadonlySet<number> | undefined;
  /** Top of each node now, and the top it moves to. */
  y = new Float64Array(0);
  target = new Float64Array(0);
  #from = new Float64Array(0);
  /** Left edge of each node now, and the column it moves to. */
  xs = new Float64Array(0);
  #fromX = new Float64Array(0);
  columns = new Int32Array(0);
  /** The columns of the grid in which the children of a node stand; 0 for one below the other. */
  grids = new Uint8Array(0);
  /** Which nodes begin a band, as `bandsOf` says it. */
  bands: Uint8Array = new Uint8Array(0);
  /** When the edge of each node begins to be drawn; 0 for long ago. */
  #born = new Float64Array(0);
  #appearing = 0;
  /** Nodes that have just completed, and when. */
  sparks = new Map<number, number>();
  #statuses = new Uint8Array(0);
  /** 1 where the node is shown: no ancestor is collapsed. */
  open = new Uint8Array(0);
  /** 1 where a layout has placed the node. */
  placed = new Uint8Array(0);
  /** First and last row of each subtree's visible part. */
  top = new Float64Array(0);
  bottom = new Float64Array(0);
  /** The last column of each subtree's visible part. */
  deepest = new Int32Array(0);
  /** Nodes by status in each whole subtree: `KINDS` numbers per node. */
  counts = new Int32Array(0);
  /** 1 where every visible child is a leaf. */
  flat = new Uint8Array(0);
  count = 0;
  #moveBegan = 0;
  #moving = false;
  #asked: Int32Array = new Int32Array(0);

  /**
   * Updates to the current graph. Returns true when the tree has changed and needs a layout. What has completed since
   * the last update gives off a spark, if `now` is given.
   */
  update(graph: Projection, collapsed: ReadonlySet<string>, now?: number): boolean {
    const n = graph.nodes.length;
    const changed = n !== this.count || collapsed !== this.collapsed || graph.shape !== this.graph?.shape;
    this.graph = graph;
    this.collapsed = collapsed;
    if (changed) {
      this.#grow(n);
      this.#openUp(n);
    }
    this.#spark(graph, Math.min(n, this.count), now);
    this.count = n;
    this.#tally();
    if (changed) this.#extents();
    return changed;
  }

  #spark({ nodes }: Projection, known: number, now: number | undefined): void {
    for (let i = 0; i < nodes.length; i++) {
      const status = statusIndex(nodes[i]!.status);
      const isNew = i < known && status === DONE && this.#statuses[i] !== DONE;
      if (isNew && now !== undefined && this.sparks.size < MOST_SPARKS) this.sparks.set(i, now);
      this.#statuses[i] = status;
    }
  }

  #grow(n: number): void {
    if (n <= this.y.length) return;
    const size = Math.max(64, n + (n >> 1));
    const longer = <T extends Float64Array | Uint8Array | Int32Array>(made: T, old: T): T => {
      made.set(old);
      return made;
    };
    this.y = longer(new Float64Array(size), this.y);
    this.target = longer(new Float64Array(size), this.target);
    this.#from = longer(new Float64Array(size), this.#from);
    this.xs = longer(new Float64Array(size), this.xs);
    this.#fromX = longer(new Float64Array(size), this.#fromX);
    this.columns = longer(new Int32Array(size), this.columns);
    this.grids = longer(new Uint8Array(size), this.grids);
    this.#born = longer(new Float64Array(size), this.#born);
    this.#statuses = longer(new Uint8Array(size), this.#statuses);
    this.open = longer(new Uint8Array(size), this.open);
    this.placed = longer(new Uint8Array(size), this.placed);
    this.top = new Float64Array(size);
    this.bottom = new Float64Array(size);
    this.deepest = new Int32Array(size);
    this.flat = new Uint8Array(size);
    this.counts = new Int32Array(size * KINDS);
  }

  #openUp(n: number): void {
    const { parents, ids } = this.graph!.shape;
    const anyCollapsed = this.collapsed.size > 0;
    for (let i = 0; i < n; i++) {
      const parent = parents[i]!;
      const shown = parent < 0 || (this.open[parent] === 1 && !(anyCollapsed && this.collapsed.has(ids[parent]!)));
      this.open[i] = shown ? 1 : 0;
      if (this.placed[i] === 1 || !shown) continue;
      // Until its layout arrives, a new node is where its parent is, and not shown yet.
      this.y[i] = parent < 0 ? 0 : this.y[parent]!;
      this.target[i] = this.y[i]!;
      this.columns[i] = parent < 0 ? 0 : this.columns[parent]! + 1;
      this.xs[i] = parent < 0 ? 0 : this.xs[parent]!;
    }
  }

  #tally(): void {
    const { shape } = this.graph!;
    const { counts } = this;
    counts.fill(0, 0, this.count * KINDS);
    for (let i = this.count - 1; i >= 0; i--) {
      if (!this.absent?.has(i)) counts[i * KINDS + this.#statuses[i]!]! += 1;
      const parent = shape.parents[i]!;
      if (parent < 0) continue;
      for (let s = 0; s < KINDS; s++) counts[parent * KINDS + s]! += counts[i * KINDS + s]!;
    }
  }

  #extents(): void {
    const { shape } = this.graph!;
    for (let i = 0; i < this.count; i++) {
      this.top[i] = this.target[i]!;
      this.bottom[i] = this.target[i]!;
      this.deepest[i] = this.columns[i]!;
      this.flat[i] = 1;
    }
    for (let i = this.count - 1; i > 0; i--) {
      const parent = shape.parents[i]!;
      if (parent < 0 || this.open[i] === 0) continue;
      if (this.top[i]! < this.top[parent]!) this.top[parent] = this.top[i]!;
      if (this.bottom[i]! > this.bottom[parent]!) this.bottom[parent] = this.bottom[i]!;
      if (this.deepest[i]! > this.deepest[parent]!) this.deepest[parent] = this.deepest[i]!;
      if (this.isParent(i)) this.flat[parent] = 0;
    }
  }

  /** True when the node has visible children. */
  isParent(at: number): boolean {
    const first = this.graph!.shape.children[at]![0];
    return first !== undefined && first < this.count && this.open[first] === 1;
  }

  /** Visible children: all of them or none. */
  openChildren(at: number): number {
    const all = this.graph!.shape.children[at]!;
    let n = all.length;
    while (n > 0 && all[n - 1]! >= this.count) n -= 1;
    return this.isParent(at) ? n : 0;
  }

  hasChildren(at: number): boolean {
    const first = this.graph!.shape.children[at]![0];
    return first !== undefined && first < this.count;
  }

  /** Where the left edge of a node is, or moves to. */
  x(at: number): number {
    return this.columns[at]! * COLUMN;
  }

  /** The rows in which the visible children of a node stand. */
  rowsBelow(at: number): number {
    const grid = this.grids[at]!;
    return grid === 0 ? this.openChildren(at) : Math.round((this.bottom[at]! - this.top[at]!) / ROW) + 1;
  }

  /** The layout's input: the visible nodes, each with the index of its parent among them. */
  request(room: Size | number): LayoutRequest {
    const { parents } = this.graph!.shape;
    const slot = new Int32Array(this.count).fill(-1);
    const asked = new Int32Array(this.count);
    const out = new Int32Array(this.count);
    let n = 0;
    for (let i = 0; i < this.count; i++) {
      if (this.open[i] === 0) continue;
      slot[i] = n;
      asked[n] = i;
      out[n] = parents[i]! < 0 ? -1 : slot[parents[i]!]!;
      n += 1;
    }
    this.#asked = asked.slice(0, n);
    this.bands = bandsOf(this.graph!);
    const breaks = Uint8Array.from(this.#asked, (at) => (this.bands[at]! > 0 ? 1 : 0));
    return { parents: out.slice(0, n), cells: cellsOf(this.graph!, this.#asked), breaks, room };
  }

  /**
   * Applies a layout. The anchor stays in its row, and everything else moves. Without one, the root does. Returns by
   * how many columns the anchor has moved.
   */
  place({ ys, columns, grids }: Layout, anchor: number, animate: boolean, now: number, k = 1): number {
    const asked = this.#asked;
    const column = this.columns[anchor] ?? 0;
    let turn = 0;
    let farthest = 0;
    let shift = 0;
    for (let s = 0; s < asked.length; s++) {
      if (asked[s] === anchor && this.placed[anchor] === 1) shift = this.target[anchor]! - ys[s]!;
    }
    for (let s = 0; s < ys.length && s < asked.length; s++) {
      const i = asked[s]!;
      const fresh = this.placed[i] === 0;
      this.placed[i] = 1;
      this.target[i] = ys[s]! + shift;
      this.columns[i] = columns[s]!;
      this.grids[i] = grids[s]!;
      if (fresh && animate) {
        this.#born[i] = now + Math.min(MOST_IN_TURN, turn++) * NEXT_MS;
        this.#appearing = Math.max(this.#appearing, this.#born[i] + EDGE_MS + FADE_MS);
      }
      const parent = this.graph!.shape.parents[i]!;
      // A new node starts at its parent.
      this.#from[i] = fresh && parent >= 0 ? this.y[parent]! : this.y[i]!;
      this.#fromX[i] = fresh && parent >= 0 ? this.xs[parent]! : this.xs[i]!;
      farthest = Math.max(farthest, Math.abs(this.target[i]! - this.#from[i]!), Math.abs(this.x(i) - this.#fromX[i]!));
    }
    this.#extents();
    // Do not animate what is out of view.
    this.#moving = animate && farthest * k > 1;
    this.#moveBegan = now;
    if (!this.#moving) this.#settle();
    return (this.columns[anchor] ?? 0) - column;
  }

  #settle(): void {
    this.y.set(this.target);
    for (let i = 0; i < this.count; i++) this.xs[i] = this.x(i);
  }

  /** How much of the edge to a node is drawn, from 0 to 1. */
  drawnEdge(at: number, now: number): number {
    return Math.min(1, Math.max(0, (now - this.#born[at]!) / EDGE_MS));
  }

  /** How opaque a node is, from 0 to 1. */
  shown(at: number, now: number): number {
    if (this.placed[at] === 0) return 0;
    return Math.min(1, Math.max(0, (now - this.#born[at]! - EDGE_MS) / FADE_MS));
  }

  /** Advances the animation to `now`. Returns true until it has finished. */
  step(now: number): boolean {
    for (const [at, since] of this.sparks) if (now - since > SPARK_MS) this.sparks.delete(at);
    const busy = this.sparks.size > 0 || now < this.#appearing;
    if (!this.#moving) return busy;
    const t = Math.min(1, (now - this.#moveBegan) / MOVE_MS);
    const eased = 1 - (1 - t) ** 3;
    for (let i = 0; i < this.count; i++) {
      if (this.placed[i] === 0) continue;
      this.y[i] = this.#from[i]! + (this.target[i]! - this.#from[i]!) * eased;
      this.xs[i] = this.#fromX[i]! + (this.x(i) - this.#fromX[i]!) * eased;
    }
    this.#moving = t < 1;
    return this.#moving || busy;
  }

  /** How far the dot of a node that has just completed has come on its way to its parent, from 0 to 1. */
  sparkAt(at: number, now: number): number {
    return Math.min(1, (now - (this.sparks.get(at) ?? -Infinity)) / SPARK_MS);
  }

  /** Nodes of one status in a subtree. */
  tally(at: number, status: number): number {
    return this.counts[at * KINDS + status]!;
  }

  total(at: number): number {
    let sum = 0;
    for (let s = 0; s < KINDS; s++) sum += this.tally(at, s);
    return sum;
  }
}
