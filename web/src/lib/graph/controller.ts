// Connects scene, camera, layouter and canvas with one frame loop, which runs only while something moves.

import { probe } from '../probe';
import { ACTIVE_STATUSES, statusIndex } from '../projection/model';
import type { Projection } from '../projection/projection';
import { Camera, framing, roomOf, type Box, type Covered, type Stand } from './camera';
import type { Size } from './tidy';
import { Layouter } from './layouter';
import { paint } from './paint';
import type { Marks } from './paint-parts';
import { readPalette, type Palette } from './palette';
import { MOVE_MS, Scene } from './scene';
import { CARD_HEIGHT, CARD_WIDTH, COLUMN, type Layout } from './tidy';
import { CARD_ZOOM, CHIP_PX, hit, visible, type Item, type View } from './visible';

/** At most this many nodes are HTML cards; the others are drawn. */
const MOST_CARDS = 400;
/** Below this zoom a chip has no room for its title. */
const READABLE = CHIP_PX / CARD_HEIGHT;
/** A node that is revealed is made wider than this. */
const NARROW_PX = 90;
/** Chips pulse with this pause between two frames, if no more than so many nodes are in view. */
const PULSE_MS = 60;
const MOST_PULSING = 400;
/** A follower looks at the part of the tree that has this share of what is active. */
const MOST_ACTIVE = 0.8;
/** The tools cover this much at the lower edge. */
const TOOLS_PX = 34;

const ACTIVE = [...ACTIVE_STATUSES].map(statusIndex);

/** The viewport that survives a reload. It is relative to a node, because positions depend on how the tree grew. */
export interface Viewport extends Omit<Stand, 'tx' | 'ty'> {
  node: string;
  x: number;
  y: number;
}

export interface GraphOptions {
  canvas: HTMLCanvasElement;
  host: HTMLElement;
  /** Called after every frame with the nodes that are shown as cards. */
  onframe: (cards: Item[], now: number) => void;
  /** Called when somebody has moved the view; undefined when it follows the tree again. */
  onviewport: (viewport: Viewport | undefined) => void;
  animate: () => boolean;
}

/**
 * Keeps the size and the colours of a controller those of its element. Returns what ends it, and the controller with
 * it.
 */
export function attach(controller: GraphController, host: HTMLElement): () => void {
  const observer = new ResizeObserver(([entry]) => {
    if (entry) controller.resize(entry.contentRect.width, entry.contentRect.height);
  });
  observer.observe(host);
  const retheme = (): void => controller.retheme();
  const queries = ['(prefers-color-scheme: dark)', '(forced-colors: active)'].map((query) => matchMedia(query));
  for (const query of queries) query.addEventListener('change', retheme);
  return () => {
    for (const query of queries) query.removeEventListener('change', retheme);
    observer.disconnect();
    controller.close();
  };
}

export class GraphController {
  readonly scene = new Scene();
  readonly camera = new Camera();
  size: Size = { width: 0, height: 0 };
  marks: Marks = { selected: -1, matches: undefined, fresh: true };
  /** True until the first gesture: the view changes with the tree. */
  following: boolean;
  /** What a panel covers at the right edge. */
  covered: Covered = { right: 0, bottom: TOOLS_PX };
  #view: View = { items: [], links: [], grids: [] };
  #palette: Palette | undefined;
  #frame = 0;
  #later: ReturnType<typeof setTimeout> | undefined;
  #ready = false;
  #columns = 1;
  #turn: { from: Stand; to: Stand; since: number } | undefined;
  #restore: Viewport | undefined;
  /** What is to be revealed once it has a place. */
  #reveal: { id: string; near: boolean } | undefined;
  readonly #layouter: Layouter;
  readonly #options: GraphOptions;
  readonly #ctx: CanvasRenderingContext2D;

  constructor(options: GraphOptions, restore: Viewport | undefined) {
    const ctx = options.canvas.getContext('2d');
    if (ctx === null) throw new Error('this browser gives no 2D canvas');
    this.#ctx = ctx;
    this.#options = options;
    this.#restore = restore;
    this.following = restore === undefined;
    this.#layouter = new Layouter((layout) => this.#placed(layout));
  }

  close(): void {
    cancelAnimationFrame(this.#frame);
    clearTimeout(this.#later);
    this.#layouter.close();
  }

  /** Updates to the current graph. */
  update(graph: Projection, collapsed: ReadonlySet<string>): void {
    this.scene.absent = this.marks.absent;
    const now = this.#options.animate() ? performance.now() : undefined;
    if (this.scene.update(graph, collapsed, now)) this.#layOut();
    else if (this.following) this.#follow();
    this.redraw();
  }

  #layOut(): void {
    // Without a size there is no room to choose a layout for; it is made when there is one.
    if (this.size.width === 0) return;
    this.#layouter.request(() => this.scene.request(this.following ? roomOf(this.size, this.covered) : this.#columns));
  }

  resize(width: number, height: number): void {
    this.size = { width, height };
    const ratio = devicePixelRatio;
    this.#options.canvas.width = Math.round(width * ratio);
    this.#options.canvas.height = Math.round(height * ratio);
    if (this.#ready && this.#restore !== undefined) this.#home();
    else if (this.scene.count > 0 && (this.following || !this.#ready)) this.#layOut();
    this.redraw();
  }

  retheme(): void {
    this.#palette = undefined;
    this.redraw();
  }

  redraw(): void {
    clearTimeout(this.#later);
    if (this.#frame === 0) this.#frame = requestAnimationFrame(this.#draw);
  }

  /** Shows the whole tree, and follows it from now on. */
  follow(): void {
    this.following = true;
    this.#options.onviewport(undefined);
    if (this.scene.count > 0) this.#layOut();
  }

  /** Shows the whole tree once. */
  fit(): void {
    if (this.scene.count === 0) return;
    this.#touch();
    this.#turnTo(framing(this.size, this.#box(0), this.covered));
  }

  pan(dx: number, dy: number): void {
    this.#touch();
    this.camera.pan(dx, dy);
    this.#moved();
  }

  zoom(factor: number, x = this.size.width / 2, y = this.size.height / 2): void {
    this.#touch();
    this.camera.zoom(factor, x, y);
    this.#moved();
  }

  /** Moves the middle of the view to a point of the world. */
  centre(x: number, y: number): void {
    this.#touch();
    this.camera.centre(this.size, x, y);
    this.#moved();
  }

  /** Shows what another graph with the same layout shows. */
  mirror(stand: Stand): void {
    this.following = false;
    this.#restore = undefined;
    this.camera.move(stand);
    this.redraw();
  }

  /** What somebody has moved or selected stays in its place from now on. */
  hold(): void {
    if (!this.following) return;
    this.#touch();
    this.#moved();
  }

  #touch(): void {
    this.following = false;
    this.#turn = undefined;
    this.#restore = undefined;
  }

  /** Moves just far enough to show a node. Closer, if it is drawn within its subtree; or, with `near`, as a chip. */
  reveal(id: string, near = false): void {
    const at = this.scene.graph?.position(id) ?? -1;
    if (at < 0 || at >= this.scene.count || this.scene.open[at] !== 1) return;
    if (this.scene.placed[at] !== 1) {
      this.#reveal = { id, near };
      return;
    }
    const { camera, size, scene } = this;
    this.#touch();
    const [x, y] = [scene.x(at), scene.target[at]!];
    const narrow = camera.kx * CARD_WIDTH < NARROW_PX;
    if (camera.k < (near ? CARD_ZOOM : READABLE) || narrow || !this.#isDrawn(at)) {
      camera.k = Math.max(camera.k, CARD_ZOOM);
      if (narrow) [camera.floor, camera.narrow] = [0.5, 1];
      camera.centre({ ...size, width: size.width - this.covered.right }, x + CARD_WIDTH / 2, y + CARD_HEIGHT / 2);
    }
    camera.reveal(size, x, y, this.covered);
    this.#moved();
  }

  /** False for a node that is hidden in a bundle. */
  #isDrawn(at: number): boolean {
    const { parents } = this.scene.graph!.shape;
    const drawn = new Set(this.#view.items.filter((i) => i.bundle).map((i) => i.at));
    for (let a = parents[at]!; a >= 0; a = parents[a]!) if (drawn.has(a)) return false;
    return true;
  }

  at(x: number, y: number): Item | undefined {
    return hit(this.#view, x, y);
  }

  /** The part of the world that the whole tree takes. */
  whole(): Box {
    return this.#box(0);
  }

  /** True if a part of the tree is out of view. */
  get exceeds(): boolean {
    if (this.scene.count < 2 || !this.#ready) return false;
    const { camera, size } = this;
    const { left, right, top, bottom } = this.#box(0);
    const out = camera.x(left) < -4 || camera.x(right) > size.width + 4;
    return out || camera.y(top) < -4 || camera.y(bottom) > size.height + 4;
  }

  palette(): Palette {
    return (this.#palette ??= readPalette(this.#options.host));
  }

  #moved(): void {
    const viewport = this.#viewport();
    if (viewport !== undefined) this.#options.onviewport(viewport);
    this.redraw();
  }

  #viewport(): Viewport | undefined {
    const at = this.#anchor();
    const { camera, scene } = this;
    const id = scene.graph?.shape.ids[at];
    if (id === undefined) return undefined;
    const { k, floor, narrow } = camera;
    return { k, floor, narrow, node: id, x: camera.x(scene.x(at)), y: camera.y(scene.target[at]!) };
  }

  /**
   * The node that must not move on the screen: the selected one, else the root while it is in view, else the middle
   * one.
   */
  #anchor(): number {
    const { scene, camera, size, marks } = this;
    if (marks.selected >= 0 && marks.selected < scene.count && scene.open[marks.selected] === 1) return marks.selected;
    const rootY = camera.y(scene.y[0] ?? 0);
    if (rootY > -40 && rootY < size.height) return 0;
    let best = 0;
    let least = Infinity;
    for (const item of this.#view.items) {
      const away = Math.abs(item.y - size.height / 2);
      if (away < least && scene.placed[item.at] === 1) [best, least] = [item.at, away];
    }
    return best;
  }

  #placed(layout: Layout): void {
    const { scene } = this;
    // Before its first node a run has nothing to look at.
    if (layout.ys.length === 0 || scene.count === 0) return;
    const first = !this.#ready;
    const animate = !first && this.#options.animate() && layout.ys.length < 20_000;
    const columns = scene.place(layout, this.#anchor(), animate, performance.now(), this.camera.k);
    this.#columns = layout.most;
    this.#ready = true;
    if (this.size.width > 0) {
      if (first) this.#home();
      else if (this.following) this.#follow();
      else this.camera.tx -= columns * COLUMN * this.camera.kx;
    }
    if (this.#reveal !== undefined) {
      const { id, near } = this.#reveal;
      this.#reveal = undefined;
      this.reveal(id, near);
    }
    this.redraw();
  }

  /** The first view: as before a reload, else the whole tree. */
  #home(): void {
    const { scene, camera } = this;
    const before = this.#restore;
    const at = before === undefined ? -1 : (scene.graph?.position(before.node) ?? -1);
    if (before === undefined || at < 0) {
      if (this.following) this.#turnTo(this.#aim(), false);
      return;
    }
    camera.move({ ...before, tx: 0, ty: 0 });
    camera.tx = before.x - scene.x(at) * camera.kx;
    camera.ty = before.y - scene.target[at]! * camera.k;
    this.#restore = undefined;
  }

  /** The part of the world that a subtree takes. */
  #box(at: number): Box {
    const { scene } = this;
    return {
      left: scene.x(at),
      right: scene.deepest[at]! * COLUMN + CARD_WIDTH,
      top: scene.top[at]!,
      bottom: scene.bottom[at]! + CARD_HEIGHT,
    };
  }

  /**
   * Where a follower stands: it sees the whole tree. If that would be too small to read, and most of what is active is
   * in one subtree, it sees that.
   */
  #aim(): Stand {
    const { scene, size, covered } = this;
    const least = MOST_ACTIVE * this.#busy(0);
    let at = 0;
    let stand = framing(size, this.#box(0), covered);
    while (least > 0 && stand.k < READABLE) {
      const next = scene.graph!.childrenOf(at).find((child) => scene.open[child] === 1 && this.#busy(child) >= least);
      if (next === undefined) break;
      at = next;
      stand = framing(size, this.#box(at), covered);
    }
    return stand;
  }

  #follow(): void {
    if (this.#ready && this.size.width > 0 && this.scene.count > 0) this.#turnTo(this.#aim());
  }

  #turnTo(to: Stand, slowly = this.#options.animate()): void {
    const from = this.camera.stand();
    const { size } = this;
    const aim = this.#turn?.to ?? from;
    const [x, y] = [Math.abs(to.tx - aim.tx), Math.abs(to.ty - aim.ty)];
    if (x < 1 && y < 1 && Math.abs(to.k / aim.k - 1) < 0.005 && Math.abs(to.floor / aim.floor - 1) < 0.005) return;
    this.#turn = undefined;
    if (slowly && size.width > 0) this.#turn = { from, to, since: performance.now() };
    else {
      this.camera.move(to);
      if (!this.following) this.#moved();
    }
    this.redraw();
  }

  /** Moves the camera on its way. Returns true until it has arrived. */
  #step(now: number): boolean {
    const turn = this.#turn;
    if (turn === undefined) return false;
    const t = Math.min(1, Math.max(0, now - turn.since) / MOVE_MS);
    this.camera.move(turn.to, turn.from, 1 - (1 - t) ** 3);
    if (t < 1) return true;
    this.#turn = undefined;
    if (!this.following) this.#moved();
    return false;
  }

  readonly #draw = (now: number): void => {
    this.#frame = 0;
    const startedAt = performance.now();
    const { scene, camera, size } = this;
    // Before the first layout nothing has a position, so there is no viewport to save.
    if (size.width === 0 || scene.graph === undefined || !this.#ready) return;
    const moving = this.#step(now);
    const changing = scene.step(now) || moving;
    this.#view = visible(scene, camera, size);
    const pulses = this.marks.fresh && this.#options.animate() && this.#view.items.length <= MOST_PULSING;
    const time = { now, pulses };
    const busy = paint(this.#ctx, size, devicePixelRatio, scene, camera, this.#view, this.palette(), this.marks, time);
    const cards =
      camera.k >= CARD_ZOOM
        ? this.#view.items.slice(0, MOST_CARDS).filter((i) => !i.bundle || !scene.isParent(i.at))
        : [];
    this.#options.onframe(cards, now);
    if (changing) this.redraw();
    else if (busy) this.#later = setTimeout(() => this.redraw(), PULSE_MS);
    probe('painted', scene.graph.seq, performance.now() - startedAt);
    if (globalThis.treeAgentProbe !== undefined) this.#tellActive();
  };

  /** Tells tests how many of the active nodes, and of all, are in view: as cards and chips, or as dots of a group. */
  #tellActive(): void {
    const { scene, size } = this;
    const inView = this.#view.items.filter(
      ({ x, y, width, height }) =>
        x > -width / 2 && y > -height / 2 && x + width / 2 < size.width && y + height / 2 < size.height,
    );
    const seen = inView.reduce((sum, { at, bundle }) => {
      if (bundle) return sum + this.#busy(at);
      return sum + (ACTIVE_STATUSES.has(scene.graph!.nodes[at]!.status) ? 1 : 0);
    }, 0);
    probe('active', seen, this.#busy(0));
    const begun = this.#view.items.filter(({ at }) => at === 0 || scene.drawnEdge(at, performance.now()) > 0);
    const drawn = begun.reduce((sum, { at, bundle }) => sum + (bundle ? scene.total(at) : scene.placed[at]!), 0);
    probe('drawn', drawn, scene.graph?.nodes.length ?? 0);
  }

  /** How many nodes of a subtree are active. */
  #busy(at: number): number {
    return ACTIVE.reduce((sum, status) => sum + this.scene.tally(at, status), 0);
  }
}
