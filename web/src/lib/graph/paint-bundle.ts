// A subtree drawn as one node: its title, how many of its nodes have which status, and each of them as a dot. Failures
// come first, so they stay visible however many others there are.

import { short } from '../format';
import { ACTIVE_STATUSES, NODE_STATUSES, statusIndex } from '../projection/model';
import {
  drawIcon,
  drawLines,
  drawMark,
  drawPulse,
  linesOf,
  outline,
  rounded,
  setFont,
  widthOf,
  type Marks,
  type Time,
} from './paint-parts';
import type { Palette } from './palette';
import type { Scene } from './scene';
import { sharedOf } from './title';
import { LEAST_FONT_PX, type Item } from './visible';

const FAILED = statusIndex('failed');
const ORDER = (
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
const HOLLOW = statusIndex('waiting');
const ACTIVE = [...ACTIVE_STATUSES].map(statusIndex);
const WEIGHT = 600;
const LINE_PX = LEAST_FONT_PX + 3;
const PAD = 8;
/** A dot, with the space to the next one. */
const DOT_PX = 8;
const STEP_PX = 11;
/** Dots stand in the middle of a low group, and below the title of a tall one. */
const MOST_DOWN_PX = 8;
/** From this height on the title stands above the dots. */
const TWO_ROWS_PX = 2 * LINE_PX + 6;
/** The share of a line that is reserved for the title, and the most of it. */
const TITLE_SHARE = 0.45;
const TITLE_PX = 240;

/** Returns true if something in it is active. */
export function drawBundle(
  ctx: CanvasRenderingContext2D,
  item: Item,
  scene: Scene,
  palette: Palette,
  marks: Marks,
  time: Time,
): boolean {
  const faded = marks.matches !== undefined && !marks.matches.has(item.at) && !marks.above?.has(item.at);
  const failed = scene.tally(item.at, FAILED) > 0;
  ctx.globalAlpha = faded ? 0.5 : 1;
  // A sheet behind it shows that it contains more.
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
  // What stands out most within it gives the colour.
  const tone = palette.tone[ORDER.find((status) => scene.tally(item.at, status) > 0) ?? HOLLOW]!;
  ctx.strokeStyle = tone;
  ctx.lineWidth = failed ? 2 : 1.25;
  ctx.stroke();
  const active = ACTIVE.some((status) => scene.tally(item.at, status) > 0);
  if (active) drawPulse(ctx, item, tone, time);
  drawContent(ctx, item, scene, palette, faded);
  ctx.globalAlpha = 1;
  outline(ctx, item, palette, marks);
  return active;
}

function drawContent(ctx: CanvasRenderingContext2D, item: Item, scene: Scene, palette: Palette, faded: boolean): void {
  const node = scene.graph!.nodes[item.at]!;
  const mark = drawMark(ctx, item, node, palette);
  if (item.height < 13) {
    const room = item.width - 2 * PAD - mark;
    drawDots(ctx, scene, item.at, { x: item.x + PAD, y: item.y, width: room, height: item.height }, palette);
    return;
  }
  setFont(ctx, WEIGHT, palette);
  const two = item.height >= TWO_ROWS_PX;
  const y = two ? item.y + 4 + LINE_PX / 2 : item.y + item.height / 2 + 0.5;
  const icon = Math.min(LEAST_FONT_PX, item.height - 3);
  const left = item.x + PAD + icon + 4;
  const right = item.x + item.width - PAD - mark;
  const wide = Math.min(TITLE_PX, (right - left) * TITLE_SHARE);
  const title = linesOf(ctx, node.title, sharedOf(scene.graph!, item.at), wide, 1);
  const color = faded ? palette.muted : palette.text;
  drawIcon(ctx, statusIndex(node.status), item.x + PAD, y - icon / 2, icon, palette);
  // Text is never faded: it would be too pale to read.
  const before = ctx.globalAlpha;
  ctx.globalAlpha = 1;
  drawLines(ctx, title, { x: left, y, room: wide, height: LINE_PX }, color, palette.muted);
  const counted = drawCounts(ctx, scene, item.at, { x: left + wide + PAD, y, right, icon }, palette);
  ctx.globalAlpha = before;
  const x = two ? item.x + PAD : counted;
  const top = two ? item.y + LINE_PX + 6 : item.y;
  drawDots(ctx, scene, item.at, { x, y: top, width: right - x, height: item.y + item.height - top - 1 }, palette);
}

/** How many nodes below a node have which status, as far as there is room. Returns where it ends. */
function drawCounts(
  ctx: CanvasRenderingContext2D,
  scene: Scene,
  at: number,
  { x, y, right, icon }: { x: number; y: number; right: number; icon: number },
  palette: Palette,
): number {
  const own = statusIndex(scene.graph!.nodes[at]!.status);
  const found = ORDER.flatMap((status) => {
    const count = scene.tally(at, status) - (status === own ? 1 : 0);
    return count > 0 ? [{ status, text: short(count), word: ` ${NODE_STATUSES[status]!}` }] : [];
  });
  // The words as well where all of them have room.
  const whole = found.reduce((sum, { text, word }) => sum + widthOf(ctx, text + word) + icon + 13, 0);
  for (const { status, text, word } of found) {
    const said = whole <= right - x ? text + word : text;
    const width = icon + 3 + widthOf(ctx, said);
    if (x + width > right) break;
    drawIcon(ctx, status, x, y - icon / 2, icon, palette);
    ctx.fillStyle = palette.toneText[status]!;
    ctx.fillText(said, x + icon + 3, y);
    x += width + 10;
  }
  return x;
}

/** Draws the nodes of a subtree, but its own, as dots; and the number of those for which there is no room. */
function drawDots(
  ctx: CanvasRenderingContext2D,
  scene: Scene,
  at: number,
  box: { x: number; y: number; width: number; height: number },
  palette: Palette,
): void {
  const step = Math.min(STEP_PX, Math.max(4, box.height));
  const size = Math.min(DOT_PX, step - 1);
  if (box.width < 2 * step) return;
  const across = Math.max(1, Math.floor((box.width + step - size) / step));
  const rows = Math.max(1, Math.floor((box.height + 2) / step));
  const own = statusIndex(scene.graph!.nodes[at]!.status);
  const total = scene.total(at) - 1;
  let most = across * rows;
  let rest = '';
  if (total > most) {
    setFont(ctx, WEIGHT, palette);
    const width = widthOf(ctx, `+${short(total)} more`);
    most = Math.max(0, most - Math.ceil((width + 4) / step));
    rest = `+${short(total - most)} more`;
  }
  const used = Math.min(rows, Math.ceil(total / across));
  const top = box.y + Math.min(MOST_DOWN_PX, (box.height - used * step + step - size) / 2);
  let n = 0;
  for (const status of ORDER) {
    let count = scene.tally(at, status) - (status === own ? 1 : 0);
    ctx.fillStyle = palette.tone[status]!;
    ctx.strokeStyle = palette.tone[status]!;
    ctx.lineWidth = 1.25;
    ctx.beginPath();
    for (; count > 0 && n < most; count--, n++) {
      const x = box.x + (n % across) * step;
      const y = top + Math.floor(n / across) * step;
      const inset = status === HOLLOW ? 0.75 : 0;
      ctx.roundRect(x + inset, y + inset, size - 2 * inset, size - 2 * inset, size / 2);
    }
    // What waits is hollow, so colour is not all that tells it from what has ended.
    if (status === HOLLOW) ctx.stroke();
    else ctx.fill();
  }
  if (rest === '' || box.height < 10) return;
  ctx.fillStyle = palette.muted;
  const y = top + Math.floor(most / across) * step + size / 2 + 0.5;
  ctx.fillText(rest, box.x + (most % across) * step, y);
}
