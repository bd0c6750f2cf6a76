// A subtree drawn as one node: its title, its nodes by status, and a bar of their shares. Failures come
// first, so they stay visible however small their share.

import { short } from '../format';
import { statusIndex } from '../projection/model';
import { drawIcon, drawMark, ellipsis, outline, rounded, setFont, widthOf, type Marks } from './paint-parts';
import type { Palette } from './palette';
import type { Scene } from './scene';
import type { Item } from './visible';

const FAILED = statusIndex('failed');
const STACK = (
  [
    'failed',
    'blocked',
    'planning',
    'delegating',
    'executing',
    'aggregating',
    'waiting',
    'cancelled',
    'completed',
  ] as const
).map(statusIndex);
/** The minimum width of failures in the bar. */
const LEAST_SHARE = 3;
const WEIGHT = 600;
const ICON = 10;
const GAP = 9;
/** The share of a line that is reserved for the title. */
const TITLE_SHARE = 0.4;

export function drawBundle(
  ctx: CanvasRenderingContext2D,
  item: Item,
  scene: Scene,
  palette: Palette,
  marks: Marks,
): void {
  const faded = marks.matches !== undefined && !marks.matches.has(item.at) && !marks.above?.has(item.at);
  const failed = scene.tally(item.at, FAILED) > 0;
  ctx.globalAlpha = faded ? 0.5 : 1;
  // A stack of sheets behind it shows that it contains more.
  if (item.height > 12 && item.height < 200) {
    ctx.fillStyle = palette.surface;
    ctx.strokeStyle = palette.edge;
    ctx.lineWidth = 1;
    rounded(ctx, { ...item, x: item.x + 4, y: item.y + 3, height: item.height - 2 }, 7);
    ctx.fill();
    ctx.stroke();
  }
  rounded(ctx, item, 7);
  ctx.fillStyle = palette.surface;
  ctx.fill();
  const bar = drawShares(ctx, item, scene, palette);
  rounded(ctx, item, 7);
  ctx.strokeStyle = failed ? palette.tone[FAILED]! : palette.edge;
  ctx.lineWidth = failed ? 2 : 1.25;
  ctx.stroke();
  // Text is never faded: it would be too pale to read.
  ctx.globalAlpha = 1;
  if (item.height >= 14) {
    const mark = drawMark(ctx, item, scene.graph!.nodes[item.at]!, palette);
    drawWords(ctx, { ...item, width: item.width - mark }, bar, scene, palette, faded);
  }
  outline(ctx, item, palette, marks);
}

/** Draws the bar at the lower edge. Returns its height. */
function drawShares(ctx: CanvasRenderingContext2D, item: Item, scene: Scene, palette: Palette): number {
  const height = item.height < 13 ? item.height : Math.max(4, Math.min(item.height * 0.2, 8));
  const total = scene.total(item.at);
  const shares = STACK.filter((s) => scene.tally(item.at, s) > 0);
  ctx.save();
  ctx.clip();
  let x = item.x;
  let room = item.width;
  for (const [i, s] of shares.entries()) {
    const share = (item.width * scene.tally(item.at, s)) / total;
    const width = i === shares.length - 1 ? room : Math.min(Math.max(share, LEAST_SHARE), room);
    ctx.fillStyle = palette.tone[s]!;
    ctx.fillRect(x, item.y + item.height - height, width, height);
    x += width;
    room -= width;
  }
  ctx.restore();
  return height;
}

function drawWords(
  ctx: CanvasRenderingContext2D,
  item: Item,
  bar: number,
  scene: Scene,
  palette: Palette,
  faded: boolean,
): void {
  const room = item.width - 16;
  const two = item.height - bar > 36;
  const middle = item.y + (item.height - bar) / 2;
  setFont(ctx, WEIGHT, palette);
  const counts: { status: number; text: string; width: number }[] = [];
  let width = 0;
  const most = two ? room : room * (1 - TITLE_SHARE);
  for (const status of STACK) {
    const n = scene.tally(item.at, status);
    if (n === 0) continue;
    const text = short(n);
    const wide = ICON + 3 + widthOf(ctx, WEIGHT, text) + (counts.length > 0 ? GAP : 0);
    if (width + wide > most) break;
    width += wide;
    counts.push({ status, text, width: wide });
  }
  let x = two ? item.x + 8 : item.x + item.width - 8 - width;
  const y = two ? middle + 9 : middle;
  for (const [i, { status, text, width: wide }] of counts.entries()) {
    const left = x + (i > 0 ? GAP : 0);
    drawIcon(ctx, status, left, y - ICON / 2, ICON, palette);
    ctx.fillStyle = faded ? palette.muted : palette.toneText[status]!;
    ctx.fillText(text, left + ICON + 3, y + 0.5);
    x += wide;
  }
  ctx.fillStyle = faded ? palette.muted : palette.text;
  const titleRoom = two ? room : room - width - GAP;
  ctx.fillText(
    ellipsis(ctx, WEIGHT, scene.graph!.nodes[item.at]!.title, titleRoom),
    item.x + 8,
    two ? middle - 8 : middle + 0.5,
  );
}
