// Chooses what is worth drawing at a zoom: cards, chips, and subtrees drawn as one node.

import type { Camera } from './camera';
import type { Size } from './tidy';
import type { Scene } from './scene';
import { CARD_HEIGHT, CARD_WIDTH, COLUMN } from './tidy';

/** From this zoom on nodes are HTML cards; below it they are drawn as chips. */
export const CARD_ZOOM = 0.6;
/** The smallest text that is drawn, and how high a chip must be for it. */
export const LEAST_FONT_PX = 11;
export const CHIP_PX = 14;
/** Children whose subtrees would be lower than this on the screen are shown as one node. */
const BUNDLE_PX = 17;
/** The maximum width of a bundle. */
const WIDEST_PX = 640;
/** A parent is drawn this high if its next sibling leaves room. */
const PARENT_PX = 34;
/** The space around a family that stands as a grid, in world units. */
export const AROUND = 12;

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
  /** The parent, its right edge and the left edges of its children, on the screen. */
  from: number;
  x1: number;
  y1: number;
  x2: number;
  ys: number[];
  /** Position of each child, for its colour. */
  to: number[];
}

/** A family that stands as a grid. Its one edge leads to the box around it. */
export interface Grid {
  parent: number;
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface View {
  items: Item[];
  links: Link[];
  grids: Grid[];
}

export function visible(scene: Scene, camera: Camera, size: Size): View {
  const view: View = { items: [], links: [], grids: [] };
  if (scene.count === 0 || scene.graph === undefined) return view;
  const { children } = scene.graph.shape;
  const width = CARD_WIDTH * camera.kx;
  const leaf = Math.max(CARD_HEIGHT * camera.k, 3);
  /** A bundle spans the columns that it hides, which leaves room for its dots. */
  const wide = (at: number): number =>
    Math.min(WIDEST_PX, width + (scene.deepest[at]! - scene.columns[at]!) * COLUMN * camera.kx);
  /** Height of a whole subtree on the screen. */
  const span = (at: number): number => camera.k * (scene.bottom[at]! - scene.top[at]!) + leaf;
  /** Height of a node on the screen, above the sibling `below` it. */
  const high = (at: number, below?: number): number => {
    const isPlaced = below !== undefined && scene.placed[below] === 1;
    const room = isPlaced ? camera.k * (scene.target[below]! - scene.target[at]!) - 2 : Infinity;
    return scene.hasChildren(at) ? Math.max(leaf, Math.min(PARENT_PX, span(at) / 2, room)) : leaf;
  };
  const stack = [{ at: 0, height: high(0) }];
  while (stack.length > 0) {
    const { at, height } = stack.pop()!;
    const y = camera.y(scene.y[at]!);
    const x = camera.x(scene.xs[at]!);
    const above = Math.min(y, camera.y(scene.top[at]!));
    const below = Math.max(y, camera.y(scene.bottom[at]!)) + height;
    if (below < -40 || above > size.height + 40 || x > size.width) continue;
    const parent = scene.isParent(at);
    const least = scene.flat[at] === 1 ? CHIP_PX : BUNDLE_PX;
    const small = parent && span(at) / scene.rowsBelow(at) < least && camera.k < CARD_ZOOM;
    const bundle = scene.hasChildren(at) && (!parent || small);
    // A bundle stands in place of all that it hides.
    const top = small ? above : y;
    const tall = small ? Math.max(span(at) - 3, leaf) : height;
    if (top + tall > -20 && top < size.height + 20 && x + (small ? wide(at) : width) > 0)
      view.items.push({ at, x, y: top, width: small ? wide(at) : width, height: tall, bundle });
    if (bundle || !parent) continue;
    const link: Link = { from: at, x1: x + width, y1: y + height / 2, x2: x + width, ys: [], to: [] };
    const kids = children[at]!;
    for (let c = kids.length - 1; c >= 0; c--) {
      const child = kids[c]!;
      if (child >= scene.count || scene.open[child] === 0) continue;
      const height = high(child, kids[c + 1]);
      stack.push({ at: child, height });
      if (scene.grids[at]! > 0) continue;
      link.x2 = camera.x(scene.xs[child]!);
      const cy = camera.y(scene.y[child]!) + height / 2;
      // Clip edges that end outside the screen.
      if (cy < -2000 || (cy > size.height + 2000 && link.ys.length > 0)) continue;
      link.ys.push(cy);
      link.to.push(child);
    }
    if (scene.grids[at]! > 0) {
      const grid = gridOf(at, kids[0]!);
      view.grids.push(grid);
      link.x2 = grid.x;
      link.ys.push(grid.y + grid.height / 2);
      link.to.push(kids[0]!);
    }
    view.links.push(link);
  }
  return view;

  function gridOf(parent: number, child: number): Grid {
    const around = Math.max(3, AROUND * camera.k);
    const x = camera.x(scene.xs[child]!) - around;
    const y = camera.y(scene.top[parent]!) - around;
    const across = (scene.grids[parent]! - 1) * COLUMN * camera.kx + width;
    return { parent, x, y, width: across + 2 * around, height: span(parent) + 2 * around };
  }
}

/** The item under a point of the screen. */
export function hit(view: View, x: number, y: number): Item | undefined {
  return view.items.find((i) => x >= i.x && x <= i.x + i.width && y >= i.y - 2 && y <= i.y + i.height + 2);
}
