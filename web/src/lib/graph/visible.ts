// What is worth drawing at this zoom: cards, bars, and subtrees that have become one node.

import type { Camera, Size } from './camera';
import type { Scene } from './scene';
import { CARD_HEIGHT, CARD_WIDTH, GAP_Y } from './tidy';

/** From this zoom on nodes are real cards; below they are drawn. */
export const CARD_ZOOM = 0.6;
/** A subtree lower than this on the screen becomes one node. */
const BUNDLE_PX = 26;
/** Rows closer than this cannot be told apart: a family of leaves becomes one node. */
const ROW_PX = 7;

export interface Item {
  at: number;
  /** On the screen. */
  x: number;
  y: number;
  width: number;
  height: number;
  /** The whole subtree, as one. */
  bundle: boolean;
}

export interface Link {
  /** Parent's right end and the children's left ends, on the screen. */
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
  const rowPx = (CARD_HEIGHT + GAP_Y) * camera.k;
  const width = CARD_WIDTH * camera.kx;
  const height = Math.max(CARD_HEIGHT * camera.k, 3);
  const half = height / 2;
  const stack = [0];
  while (stack.length > 0) {
    const at = stack.pop()!;
    const y = camera.y(scene.y[at]!);
    const x = camera.x(scene.x(at));
    const first = Math.min(y, camera.y(scene.top[at]!));
    const last = Math.max(y, camera.y(scene.bottom[at]!)) + height;
    if (last < -40 || first > size.height + 40 || x > size.width) continue;
    const parent = scene.isParent(at);
    const bundle =
      scene.hasChildren(at) && (!parent || last - first < BUNDLE_PX || (rowPx < ROW_PX && scene.flat[at] === 1));
    const tall = bundle && parent ? Math.max(last - first, Math.min(BUNDLE_PX, 14)) : height;
    if (y + tall > -20 && y < size.height + 20 && x + width > 0) items.push({ at, x, y, width, height: tall, bundle });
    if (bundle || !parent) continue;
    const link: Link = { x1: x + width, y1: y + half, x2: x + width, ys: [], to: [] };
    const kids = children[at]!;
    for (let c = kids.length - 1; c >= 0; c--) {
      const child = kids[c]!;
      if (child >= scene.count || scene.open[child] === 0) continue;
      stack.push(child);
      link.x2 = camera.x(scene.x(child));
      const cy = camera.y(scene.y[child]!) + half;
      // Lines that end outside are kept only as far as they can be seen.
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
