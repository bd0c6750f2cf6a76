// One node as a chip: its status, its title over up to two lines, and what it does.

import { duration } from '../format';
import { ACTIVE_STATUSES, expansionOf, statusIndex, type GraphNode } from '../projection/model';
import { DASHED, ROLE_LOOKS } from '../status';
import {
  drawIcon,
  drawLines,
  drawMark,
  drawNamed,
  drawPulse,
  fitted,
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
/**
 * In one line, what the node does stands beside the title from this width on; in several, the time does. What is done
 * leaves the room to the title.
 */
const BESIDE_PX = 130;
const TITLE_SHARE = 0.55;
const LEAST_BESIDE_PX = 40;

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
  if (ACTIVE_STATUSES.has(node.status)) drawPulse(ctx, item, palette.tone[status]!, time);
  // Text is never faded: it would be too pale to read.
  ctx.globalAlpha = opaque;
  if (item.height >= CHIP_PX - 1) drawWords(ctx, item, node, scene, palette, marks, faded);
  ctx.globalAlpha = 1;
  outline(ctx, item, palette, marks);
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
  const most = Math.max(1, Math.floor((item.height - 3) / LINE_PX));
  const said = marks.says?.(node, item.at);
  const right = drawMark(ctx, item, node, palette) + drawCorner(ctx, item, node, scene, palette, marks);
  const x = item.x + PAD + icon + 4;
  const room = item.x + item.width - PAD - right - x;
  const isBeside = most === 1 && said !== undefined && said.activity.what !== '' && room > BESIDE_PX;
  const isDone = said === undefined || node.status === 'completed';
  const lines = Math.min(2, isDone ? most : Math.max(1, most - 1));
  setFont(ctx, 600, palette);
  const share = isBeside && !isDone ? TITLE_SHARE : 1;
  const title = linesOf(ctx, node.title, sharedOf(scene.graph!, item.at), room * share, lines);
  const isBelow = most > title.length && said !== undefined && said.activity.what !== '';
  const rows = title.length + (isBelow ? 1 : 0);
  const y = item.y + item.height / 2 - ((rows - 1) * LINE_PX) / 2 + 0.5;
  drawIcon(ctx, statusIndex(node.status), item.x + PAD, y - icon / 2, icon, palette);
  const color = faded ? palette.muted : palette.text;
  drawLines(ctx, title, { x, y, room, height: LINE_PX }, color, palette.muted);
  if (said === undefined || (!isBelow && !isBeside)) return;
  const wide = isBeside
    ? Math.max(0, ...title.map((line) => line.reduce((sum, run) => sum + widthOf(ctx, run.text), 0)))
    : 0;
  setFont(ctx, 500, palette);
  ctx.fillStyle = faded ? palette.muted : palette.toneText[statusIndex(node.status)]!;
  const left = isBeside ? x + wide + 8 : x;
  if (isBeside && x + room - left < LEAST_BESIDE_PX) return;
  const time = isBelow && room > BESIDE_PX && said.took !== undefined ? duration(said.took) : '';
  const end = isBelow ? item.x + item.width - PAD : x + room;
  const text = fitted(ctx, 500, said.activity, end - left - (time === '' ? 0 : widthOf(ctx, time) + 6));
  const below = isBelow ? y + title.length * LINE_PX : y;
  ctx.fillText(text, left, below);
  ctx.fillStyle = palette.muted;
  if (time !== '') ctx.fillText(time, end - widthOf(ctx, time), below);
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
  if (node.startedAt !== undefined) {
    drawNamed(ctx, ROLE_LOOKS[node.role].icon, palette.muted, right - size, y - size / 2, size);
    right -= size + 3;
  }
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
