// The viewport: screen = world * scale + offset. Below `FLAT` the axes scale separately: rows go on shrinking, columns
// stay wide enough to read. A large tree is thousands of rows tall but only a few columns wide.

import { CARD_HEIGHT, CARD_WIDTH, COLUMN } from './tidy';

export const MAX_ZOOM = 2;
export const MIN_ZOOM = 0.00002;
const FLAT = 0.5;
/** The legend covers this much at the lower edge. */
const LEGEND_PX = 30;

export interface Size {
  width: number;
  height: number;
}

export class Camera {
  /** Scale of the rows, and of everything above `FLAT`. */
  k = 1;
  tx = 0;
  ty = 0;
  /** The minimum width of a column. */
  floor = FLAT;

  /** Scale of the columns, and of everything that is drawn in them. */
  get kx(): number {
    return Math.max(this.k, this.floor);
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

  /** Fits the whole tree, at its natural size at most. */
  fit(whole: Size, depth: number, top: number, bottom: number): void {
    const margin = 32;
    const size = { width: whole.width, height: Math.max(2 * margin + CARD_HEIGHT, whole.height - LEGEND_PX) };
    const width = depth * COLUMN + CARD_WIDTH;
    const height = bottom - top + CARD_HEIGHT;
    this.floor = Math.min(FLAT, Math.max(0.02, (size.width - 2 * margin) / width));
    const k = Math.min((size.height - 2 * margin) / height, 1);
    const across = (size.width - 2 * margin) / width;
    this.k = Math.max(MIN_ZOOM, Math.min(k, across));
    this.tx = Math.max(margin, (size.width - width * this.kx) / 2);
    this.ty = margin - top * this.k + Math.max(0, (size.height - 2 * margin - height * this.k) / 2);
  }

  /**
   * Centres a card, but shows no empty space beyond the first column and the top of the tree. Shows the whole parent if
   * it fits.
   */
  centre(size: Size, x: number, y: number, top: number): void {
    const margin = 28;
    this.tx = Math.min(margin, size.width / 2 - (x + CARD_WIDTH / 2) * this.kx);
    this.ty = Math.min(margin - top * this.k, size.height / 2 - (y + CARD_HEIGHT / 2) * this.k);
    const hidden = margin - this.x(Math.max(0, x - COLUMN));
    const room = size.width - margin - this.x(x) - CARD_WIDTH * this.kx;
    if (hidden > 0 && hidden <= room) this.tx += hidden;
  }

  /** Moves just far enough to bring a card into view. */
  reveal(size: Size, x: number, y: number): void {
    const pad = 28;
    const left = this.x(x);
    const top = this.y(y);
    const right = left + CARD_WIDTH * this.kx;
    const bottom = top + CARD_HEIGHT * this.k;
    if (left < pad) this.tx += pad - left;
    else if (right > size.width - pad) this.tx -= Math.min(right - size.width + pad, left - pad);
    if (top < pad) this.ty += pad - top;
    else if (bottom > size.height - pad) this.ty -= Math.min(bottom - size.height + pad, top - pad);
  }
}
