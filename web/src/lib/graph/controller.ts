// Connects scene, camera, layouter and canvas with one frame loop, which runs only while something moves.

import { probe } from '../probe';
import type { Projection } from '../projection/projection';
import { Camera, type Size } from './camera';
import { Layouter } from './layouter';
import { paint } from './paint';
import type { Marks } from './paint-parts';
import { readPalette, type Palette } from './palette';
import { Scene } from './scene';
import { CARD_WIDTH, COLUMN } from './tidy';
import { CARD_ZOOM, hit, visible, type Item, type View } from './visible';

/** At most this many nodes are HTML cards; the others are drawn. */
const MOST_CARDS = 400;
/** From this zoom on a bar is tall enough for its title. */
const READABLE = 0.16;

/** The viewport that survives a reload. It is relative to a node, because positions depend on how the tree grew. */
export interface Viewport {
  k: number;
  floor: number;
  node: string;
  x: number;
  y: number;
}

export interface GraphOptions {
  canvas: HTMLCanvasElement;
  host: HTMLElement;
  /** Called after every frame with the nodes that are shown as cards. */
  onframe: (cards: Item[]) => void;
  onviewport: (viewport: Viewport) => void;
  animate: () => boolean;
  /** True while more nodes are expected. */
  growing: () => boolean;
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
  const scheme = matchMedia('(prefers-color-scheme: dark)');
  scheme.addEventListener('change', retheme);
  return () => {
    scheme.removeEventListener('change', retheme);
    observer.disconnect();
    controller.close();
  };
}

export class GraphController {
  readonly scene = new Scene();
  readonly camera = new Camera();
  size: Size = { width: 0, height: 0 };
  marks: Marks = { selected: -1, matches: undefined, fresh: true };
  #view: View = { items: [], links: [] };
  #palette: Palette | undefined;
  #frame = 0;
  #ready = false;
  #mirrors = false;
  #restore: Viewport | undefined;
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
    this.#layouter = new Layouter((ys) => this.#placed(ys));
  }

  close(): void {
    cancelAnimationFrame(this.#frame);
    this.#layouter.close();
  }

  /** Updates to the current graph. */
  update(graph: Projection, collapsed: ReadonlySet<string>): void {
    this.scene.absent = this.marks.absent;
    if (this.scene.update(graph, collapsed)) this.#layouter.request(() => this.scene.parents());
    this.redraw();
  }

  resize(width: number, height: number): void {
    const first = this.size.width === 0;
    this.size = { width, height };
    const ratio = devicePixelRatio;
    this.#options.canvas.width = Math.round(width * ratio);
    this.#options.canvas.height = Math.round(height * ratio);
    if (first && this.#ready) this.#home();
    this.redraw();
  }

  retheme(): void {
    this.#palette = undefined;
    this.redraw();
  }

  redraw(): void {
    if (this.#frame === 0) this.#frame = requestAnimationFrame(this.#draw);
  }

  fit(): void {
    const { scene } = this;
    if (scene.count === 0) return;
    let depth = 0;
    for (let i = 0; i < scene.count; i++)
      if (scene.open[i] === 1) depth = Math.max(depth, scene.graph!.shape.depths[i]!);
    this.camera.fit(this.size, depth, scene.top[0]!, scene.bottom[0]!);
    this.#moved();
  }

  pan(dx: number, dy: number): void {
    this.camera.pan(dx, dy);
    this.#moved();
  }

  zoom(factor: number, x = this.size.width / 2, y = this.size.height / 2): void {
    this.camera.zoom(factor, x, y);
    this.#moved();
  }

  /** Shows what another graph with the same layout shows. */
  mirror({ k, tx, ty, floor }: Camera): void {
    this.#mirrors = true;
    Object.assign(this.camera, { k, tx, ty, floor });
    this.redraw();
  }

  /** Moves to a node; with `near`, close enough to read it. */
  reveal(id: string, near: boolean): void {
    const at = this.scene.graph?.position(id) ?? -1;
    if (at < 0 || this.scene.open[at] !== 1) return;
    if (this.scene.placed[at] !== 1) {
      this.#reveal = { id, near };
      return;
    }
    const { camera, size, scene } = this;
    if (near && camera.k < CARD_ZOOM) {
      camera.k = 0.85;
      camera.centre(size, scene.x(at), scene.target[at]!, scene.top[0]!);
    } else camera.reveal(size, scene.x(at), scene.target[at]!);
    this.#moved();
  }

  at(x: number, y: number): Item | undefined {
    return hit(this.#view, x, y);
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
    return { k: camera.k, floor: camera.floor, node: id, x: camera.x(scene.x(at)), y: camera.y(scene.target[at]!) };
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

  #placed(ys: Float64Array): void {
    const { scene } = this;
    const first = !this.#ready;
    scene.place(
      ys,
      this.#anchor(),
      !first && this.#options.animate() && ys.length < 20_000,
      performance.now(),
      this.camera.k,
    );
    this.#ready = true;
    if (first && this.size.width > 0) this.#home();
    if (this.#reveal !== undefined) {
      const { id, near } = this.#reveal;
      this.#reveal = undefined;
      this.reveal(id, near);
    }
    this.redraw();
  }

  /**
   * The first view: as before a reload, else the whole tree, with room for it to grow. If this graph is placed after
   * another one was moved, it keeps what it mirrors.
   */
  #home(): void {
    if (this.#mirrors) return;
    const { scene, camera, size } = this;
    const at = this.#restore === undefined ? -1 : (scene.graph?.position(this.#restore.node) ?? -1);
    if (this.#restore !== undefined && at >= 0) {
      camera.k = this.#restore.k;
      camera.floor = this.#restore.floor;
      camera.tx = this.#restore.x - scene.x(at) * camera.kx;
      camera.ty = this.#restore.y - scene.target[at]! * camera.k;
    } else if (scene.count < 60 && this.#options.growing()) {
      // The root goes into the corner, because the tree grows to the right and downwards.
      this.fit();
      const columns = (size.width - 72) / (2 * COLUMN + CARD_WIDTH);
      camera.k = Math.max(READABLE, Math.min(camera.k, 0.8, Math.max(CARD_ZOOM, columns)));
      camera.tx = 36;
      camera.ty = 36;
    } else {
      this.fit();
      // The beginning of the tree with its titles is better than all of it without.
      if (scene.count < 400 && camera.k < READABLE) {
        camera.k = READABLE;
        camera.ty = 28;
      }
    }
    this.#restore = undefined;
  }

  readonly #draw = (now: number): void => {
    this.#frame = 0;
    const startedAt = performance.now();
    const { scene, camera, size } = this;
    // Before the first layout nothing has a position, so there is no viewport to save.
    if (size.width === 0 || scene.graph === undefined || !this.#ready) return;
    const moving = scene.step(now);
    this.#palette ??= readPalette(this.#options.host);
    this.#view = visible(scene, camera, size);
    paint(this.#ctx, size, devicePixelRatio, scene, camera, this.#view, this.#palette, this.marks);
    const cards =
      camera.k >= CARD_ZOOM
        ? this.#view.items.slice(0, MOST_CARDS).filter((i) => !i.bundle || !scene.isParent(i.at))
        : [];
    this.#options.onframe(cards);
    if (moving) this.redraw();
    probe('painted', scene.graph.seq, performance.now() - startedAt);
  };
}
