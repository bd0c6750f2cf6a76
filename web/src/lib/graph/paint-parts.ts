// What nodes and bundles are drawn with alike.

import { ICONS } from '../icons';
import { NODE_STATUSES } from '../projection/model';
import { NODE_LOOKS } from '../status';
import type { Palette } from './palette';
import type { Item } from './visible';

export interface Marks {
  selected: number;
  matches: ReadonlySet<number> | undefined;
  /** False: what is shown may be old, so nothing looks alive. */
  fresh: boolean;
}

export function rounded(ctx: CanvasRenderingContext2D, item: Item, radius: number): void {
  ctx.beginPath();
  ctx.roundRect(item.x, item.y, item.width, item.height, Math.min(radius, item.height / 2));
}

export function outline(ctx: CanvasRenderingContext2D, item: Item, palette: Palette, marks: Marks): void {
  if (item.at !== marks.selected && !marks.matches?.has(item.at)) return;
  ctx.setLineDash([]);
  ctx.strokeStyle = palette.focus;
  ctx.lineWidth = item.at === marks.selected ? 3 : 2;
  ctx.beginPath();
  ctx.roundRect(item.x - 3, item.y - 3, item.width + 6, item.height + 6, 9);
  ctx.stroke();
}

const glyphs = new Map<number, Path2D>();

/** The icon of a status, the one that cards and lists show. */
export function drawIcon(ctx: CanvasRenderingContext2D, status: number, x: number, y: number, size: number, palette: Palette): void {
  let glyph = glyphs.get(status);
  if (glyph === undefined) glyphs.set(status, (glyph = new Path2D(ICONS[NODE_LOOKS[NODE_STATUSES[status]!].icon] ?? '')));
  ctx.save();
  ctx.translate(x, y);
  ctx.scale(size / 16, size / 16);
  ctx.lineWidth = 2.2;
  ctx.lineCap = 'round';
  ctx.strokeStyle = palette.tone[status]!;
  ctx.stroke(glyph);
  ctx.restore();
}

/** As much of a text as there is room for, in the font that is set. */
export function ellipsis(ctx: CanvasRenderingContext2D, text: string, room: number): string {
  // No character is narrower than two pixels here, and titles can be long.
  const whole = text.slice(0, Math.max(0, Math.ceil(room / 2)));
  if (whole.length === text.length && ctx.measureText(whole).width <= room) return whole;
  let least = 0;
  let most = whole.length;
  while (least < most) {
    const middle = (least + most + 1) >> 1;
    if (ctx.measureText(`${whole.slice(0, middle)}…`).width <= room) least = middle;
    else most = middle - 1;
  }
  return least === 0 ? '' : `${whole.slice(0, least).trimEnd()}…`;
}
