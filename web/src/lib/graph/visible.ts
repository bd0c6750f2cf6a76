// Chooses what is worth drawing at a zoom: cards, bars, and subtrees drawn as one node.

import type { Camera, Size } from './camera';
import type { Scene } from './scene';
import { CARD_HEIGHT, CARD_WIDTH, COLUMN } from './tidy';

/** From this zoom on nodes are HTML cards; below it they are drawn. */
export const CARD_ZOOM = 0.6;
/** Children whose subtrees would be lower than this on the screen are shown as one node. */
const BUNDLE_PX = 20;
/** The same for leaves, which are only bars. */
const ROW_PX = 7;
/** The maximum width of a bundle. */
const WIDEST_PX = 360;
/** A node with room below it is drawn at least this high. */
const PARENT_PX = 24;

export interface Item {
  at: number;
  /** On the screen. */
  x: number;
  y: number;
  width: number;
  height: number;
  /** It stands for its whole subtree. */
  bundle: boolean;
}

export interface Link {
  /** The parent's right edge and the children's left edges, on the screen. */
  x1: number;
  y1: number;
  x2: number;
  ys: number[];
  /** Position of each child, for its colour. */
  to: number[];
}

export interface View {
  items: Item[];
  links: Link[];
}

export function visible(scene: Scene, camera: Camera, size: Size): View {
  const items: Item[] = [];
  const links: Link[] = [];
  if (scene.count === 0 || scene.graph === undefined) return { items, links };
  const { children } = scene.graph.shape;
  const width = CARD_WIDTH * camera.kx;
  const leaf = Math.max(CARD_HEIGHT * camera.k, 3);
  /** A bundle spans the columns that it hides, which leaves room for its text. */
  const wide = (at: number): number =>
    Math.min(WIDEST_PX, width + (scene.deepest[at]! - scene.graph!.shape.depths[at]!) * COLUMN * camera.kx);
  /** Height of a whole subtree on the screen. */
  const span = (at: number): number => camera.k * (scene.bottom[at]! - scene.top[at]!) + leaf;
  const high = (at: number): number =>
    scene.hasChildren(at) ? Math.max(leaf, Math.min(PARENT_PX, span(at) / 2)) : leaf;
  const stack = [0];
  while (stack.length > 0) {
    const at = stack.pop()!;
    const y = camera.y(scene.y[at]!);
    const x = camera.x(scene.x(at));
    const height = high(at);
    const first = Math.min(y, camera.y(scene.top[at]!));
    const last = Math.max(y, camera.y(scene.bottom[at]!)) + height;
    if (last < -40 || first > size.height + 40 || x > size.width) continue;
    const parent = scene.isParent(at);
    const kids = children[at]!;
    const small =
      parent && span(at) / scene.openChildren(at) < (scene.flat[at] === 1 ? ROW_PX : BUNDLE_PX) && camera.k < CARD_ZOOM;
    const bundle = scene.hasChildren(at) && (!parent || small);
    const tall = small ? Math.max(span(at) - 3, leaf) : height;
    if (y + tall > -20 && y < size.height + 20 && x + (small ? wide(at) : width) > 0)
      items.push({ at, x, y, width: small ? wide(at) : width, height: tall, bundle });
    if (bundle || !parent) continue;
    const link: Link = { x1: x + width, y1: y + height / 2, x2: x + width, ys: [], to: [] };
    for (let c = kids.length - 1; c >= 0; c--) {
      const child = kids[c]!;
      if (child >= scene.count || scene.open[child] === 0) continue;
      stack.push(child);
      link.x2 = camera.x(scene.x(child));
      const cy = camera.y(scene.y[child]!) + high(child) / 2;
      // Clip edges that end outside the screen.
      if (cy < -2000 || (cy > size.height + 2000 && link.ys.length > 0)) continue;
      link.ys.push(cy);
      link.to.push(child);
    }
    links.push(link);
  }
  return { items, links };
}

/** The item under a point of the screen. */
export function hit(view: View, x: number, y: number): Item | undefined {
  return view.items.find((i) => x >= i.x && x <= i.x + i.width && y >= i.y - 2 && y <= i.y + i.height + 2);
}
