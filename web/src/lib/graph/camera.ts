// The viewport: screen = world * scale + offset. Rows and columns have scales of their own: a large tree is thousands
// of rows tall but only a few columns wide, so rows go on shrinking while columns stay wide enough to read.

import { CARD_HEIGHT, CARD_WIDTH, type Size } from './tidy';

const MAX_ZOOM = 2;
const MIN_ZOOM = 0.00002;
/** The widest that a card is made to fill a room. */
const WIDEST_PX = 320;
const MARGIN = 28;

/** A part of the world. */
export interface Box {
  left: number;
  /** Of the right edge of its last column. */
  right: number;
  top: number;
  bottom: number;
}

/** What of the screen is covered at the right and at the lower edge, in pixels. */
export interface Covered {
  right: number;
  bottom: number;
}

/** Where a camera stands. */
export interface Stand {
  /** Scale of the rows. */
  k: number;
  /** The least scale of the columns. */
  floor: number;
  /** Scale of the columns as a part of that of the rows, above `floor`. */
  narrow: number;
  tx: number;
  ty: number;
}

const widthScale = ({ k, narrow, floor }: Stand): number => Math.max(k * narrow, floor);

export class Camera implements Stand {
  k = 1;
  floor = 0.5;
  narrow = 1;
  tx = 0;
  ty = 0;

  /** Scale of the columns, and of everything that is drawn in them. */
  get kx(): number {
    return widthScale(this);
  }

  x(world: number): number {
    return world * this.kx + this.tx;
  }

  y(world: number): number {
    return world * this.k + this.ty;
  }

  pan(dx: number, dy: number): void {
    this.tx += dx;
    this.ty += dy;
  }

  /** Zooms around a point of the screen. */
  zoom(factor: number, x: number, y: number): void {
    const wx = (x - this.tx) / this.kx;
    const wy = (y - this.ty) / this.k;
    this.k = Math.min(MAX_ZOOM, Math.max(MIN_ZOOM, this.k * factor));
    this.tx = x - wx * this.kx;
    this.ty = y - wy * this.k;
  }

  stand(): Stand {
    const { k, floor, narrow, tx, ty } = this;
    return { k, floor, narrow, tx, ty };
  }

  /**
   * Moves to a stand; with `part` below 1, only so far from `before`. The edges of what is in view move in straight
   * lines, as nodes do. So what both stands show stays in view on the way.
   */
  move(to: Stand, before: Stand = to, part = 1): void {
    if (part < 1) {
      const between = (a: number, b: number): number => a + (b - a) * part;
      const [kx0, kx1] = [widthScale(before), widthScale(to)];
      const k = 1 / between(1 / before.k, 1 / to.k);
      const kx = 1 / between(1 / kx0, 1 / kx1);
      const tx = between(before.tx / kx0, to.tx / kx1) * kx;
      const ty = between(before.ty / before.k, to.ty / to.k) * k;
      to = { k, floor: kx, narrow: Math.min(1, kx / k), tx, ty };
    }
    const { k, floor, narrow, tx, ty } = to;
    Object.assign(this, { k, floor, narrow, tx, ty });
  }

  /** Centres a point of the world. */
  centre(size: Size, x: number, y: number): void {
    this.tx = size.width / 2 - x * this.kx;
    this.ty = size.height / 2 - y * this.k;
  }

  /** Moves just far enough to bring a card into view. */
  reveal(size: Size, x: number, y: number, covered: Covered): void {
    const right = size.width - MARGIN - covered.right;
    const bottom = size.height - MARGIN - covered.bottom;
    const left = this.x(x);
    const top = this.y(y);
    const [width, height] = [CARD_WIDTH * this.kx, CARD_HEIGHT * this.k];
    if (left + width > right) this.tx -= left + width - right;
    if (this.x(x) < MARGIN) this.tx += MARGIN - this.x(x);
    if (top + height > bottom) this.ty -= top + height - bottom;
    if (this.y(y) < MARGIN) this.ty += MARGIN - this.y(y);
  }
}

/**
 * Where the camera stands to show a part of the world in full, in the middle of the screen, at its natural height at
 * most. Columns are as wide as there is room.
 */
export function framing(size: Size, { left, right, top, bottom }: Box, covered: Covered): Stand {
  const room = roomOf(size, covered);
  const k = Math.max(MIN_ZOOM, Math.min(1, room.height / (bottom - top)));
  const kx = Math.max(0.02, Math.min(WIDEST_PX / CARD_WIDTH, room.width / (right - left)));
  return {
    k,
    floor: kx,
    narrow: Math.min(1, kx / k),
    tx: MARGIN + Math.max(0, (room.width - (right - left) * kx) / 2) - left * kx,
    ty: MARGIN + Math.max(0, (room.height - (bottom - top) * k) / 2) - top * k,
  };
}

/** The room that is left for a tree. */
export const roomOf = ({ width, height }: Size, covered: Covered): Size => ({
  width: Math.max(CARD_WIDTH / 4, width - 2 * MARGIN - covered.right),
  height: Math.max(CARD_HEIGHT / 2, height - 2 * MARGIN - covered.bottom),
});
