// One node as a chip: its status, its title over up to two lines, and what it does.

import { phraseOf } from '../phrases';
import { ACTIVE_STATUSES, expansionOf, statusIndex, type GraphNode } from '../projection/model';
import { DASHED, ROLE_LOOKS } from '../status';
import {
  drawIcon,
  drawLines,
  drawMark,
  drawNamed,
  ellipsis,
  linesOf,
  outline,
  rounded,
  setFont,
  widthOf,
} from './paint-parts';
import type { Marks, Time } from './paint-parts';
import type { Palette } from './palette';
import type { Scene } from './scene';
import { sharedOf } from './title';
import { CHIP_PX, LEAST_FONT_PX, type Item } from './visible';

const LINE_PX = LEAST_FONT_PX + 3;
const PAD = 6;
/** A chip as high as this has room for two lines; and for what the node does below them. */
const TWO_LINES_PX = 2 * LINE_PX + 4;
const PHRASE_PX = 3 * LINE_PX + 6;
/** A pulse lasts this long. */
const PULSE_MS = 1600;

/** `opaque` is less than 1 while the node appears. */
export function drawNode(
  ctx: CanvasRenderingContext2D,
  item: Item,
  scene: Scene,
  palette: Palette,
  marks: Marks,
  time: Time,
  opaque: number,
): void {
  const node = scene.graph!.nodes[item.at]!;
  const status = statusIndex(node.status);
  const faded = marks.matches !== undefined && !marks.matches.has(item.at);
  const hasChildren = scene.hasChildren(item.at);
  const hollow = expansionOf(node, hasChildren) === 'unexpanded';
  ctx.globalAlpha = opaque * (faded ? 0.35 : 1);
  rounded(ctx, item, 6);
  ctx.fillStyle = hollow ? palette.surface : item.height < 9 ? palette.tone[status]! : palette.toneBg[status]!;
  ctx.fill();
  if (item.height >= 9 || hollow) {
    ctx.setLineDash(DASHED.has(node.status) ? [4, 3] : []);
    ctx.strokeStyle = palette.tone[status]!;
    ctx.lineWidth = 1.25;
    ctx.stroke();
    ctx.setLineDash([]);
  }
  if (time.pulses && ACTIVE_STATUSES.has(node.status)) drawPulse(ctx, item, palette.tone[status]!, time.now);
  // Text is never faded: it would be too pale to read.
  ctx.globalAlpha = opaque;
  if (item.height >= CHIP_PX - 1) drawWords(ctx, item, node, scene, palette, marks, faded);
  ctx.globalAlpha = 1;
  outline(ctx, item, palette, marks);
}

/** A ring that grows and fades, as on cards. */
function drawPulse(ctx: CanvasRenderingContext2D, item: Item, color: string, now: number): void {
  const part = (now % PULSE_MS) / PULSE_MS;
  const by = 5 * part;
  const before = ctx.globalAlpha;
  ctx.globalAlpha = before * 0.6 * (1 - part);
  ctx.strokeStyle = color;
  ctx.lineWidth = 2;
  ctx.beginPath();
  ctx.roundRect(item.x - by, item.y - by, item.width + 2 * by, item.height + 2 * by, 6 + by);
  ctx.stroke();
  ctx.globalAlpha = before;
}

function drawWords(
  ctx: CanvasRenderingContext2D,
  item: Item,
  node: GraphNode,
  scene: Scene,
  palette: Palette,
  marks: Marks,
  faded: boolean,
): void {
  const icon = Math.min(LEAST_FONT_PX, item.height - 3);
  const lines = item.height >= TWO_LINES_PX ? 2 : 1;
  const phrase = item.height >= PHRASE_PX ? phraseOf(node, scene.graph!, item.at) : '';
  const right = drawMark(ctx, item, node, palette) + drawCorner(ctx, item, node, scene, palette, marks);
  const x = item.x + PAD + icon + 4;
  const room = item.x + item.width - PAD - right - x;
  setFont(ctx, 600, palette);
  const title = linesOf(ctx, node.title, sharedOf(scene.graph!, item.at), room, lines);
  const rows = title.length + (phrase === '' ? 0 : 1);
  const y = item.y + item.height / 2 - ((rows - 1) * LINE_PX) / 2 + 0.5;
  drawIcon(ctx, statusIndex(node.status), item.x + PAD, y - icon / 2, icon, palette);
  const color = faded ? palette.muted : palette.text;
  drawLines(ctx, title, { x, y, room, height: LINE_PX }, color, palette.muted);
  if (phrase === '') return;
  setFont(ctx, 500, palette);
  ctx.fillStyle = palette.muted;
  ctx.fillText(ellipsis(ctx, 500, phrase, room), x, y + title.length * LINE_PX);
}

/**
 * The role, and the place among the picks of a search, the branch of homework, or the band of a plan that has several,
 * in the upper corner of a chip with room.
 * Returns their width.
 */
function drawCorner(
  ctx: CanvasRenderingContext2D,
  item: Item,
  node: GraphNode,
  scene: Scene,
  palette: Palette,
  marks: Marks,
): number {
  if (item.width < 110) return 0;
  const size = Math.min(10, item.height - 4);
  const y = item.y + Math.min(item.height / 2, PAD + LEAST_FONT_PX / 2);
  let right = item.x + item.width - PAD;
  drawNamed(
    ctx,
    ROLE_LOOKS[scene.hasChildren(item.at) ? 'planner' : node.role].icon,
    palette.muted,
    right - size,
    y - size / 2,
    size,
  );
  right -= size + 3;
  const bands = scene.graph!.node(node.parentId ?? '')?.plan?.bands.length ?? 0;
  const isBand = bands > 1 && node.bandIndex !== undefined;
  const pick = marks.picks?.(node);
  const group = node.task ? node.task.branchId.slice(0, 12) : isBand ? `B${node.bandIndex! + 1}` : '';
  const text = pick === undefined ? group : String(pick);
  if (text !== '') {
    setFont(ctx, 500, palette);
    ctx.fillStyle = palette.muted;
    const width = widthOf(ctx, text);
    right -= width + (pick === undefined ? 0 : 3);
    ctx.fillText(text, right, y + 0.5);
    if (pick !== undefined) {
      // A number in a circle.
      ctx.strokeStyle = palette.muted;
      ctx.lineWidth = 1;
      ctx.beginPath();
      ctx.roundRect(right - 3, y - 6.5, width + 6, 13, 6.5);
      ctx.stroke();
      right -= 3;
    }
    right -= 3;
  }
  return item.x + item.width - PAD - right;
}
