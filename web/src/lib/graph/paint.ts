// Draws what `visible` chose: edges at every zoom, nodes below the zoom of the cards.

import { NODE_STATUSES, statusIndex } from '../projection/model';
import { short } from '../format';
import { DASHED, NODE_LOOKS } from '../status';
import type { Camera, Size } from './camera';
import type { Palette } from './palette';
import type { Scene } from './scene';
import { CARD_ZOOM, type Item, type Link, type View } from './visible';

const FAILED = statusIndex('failed');
const BLOCKED = statusIndex('blocked');
/** Failures first: they stay visible however small their share. */
const STACK = [FAILED, BLOCKED, 0, 1, 2, 4, 3, 8, 5];

export interface Marks {
  selected: number;
  matches: ReadonlySet<number> | undefined;
  /** False: what is shown may be old, so nothing looks alive. */
  fresh: boolean;
}

export function paint(
  ctx: CanvasRenderingContext2D,
  size: Size,
  ratio: number,
  scene: Scene,
  camera: Camera,
  view: View,
  palette: Palette,
  marks: Marks,
): void {
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.clearRect(0, 0, size.width, size.height);
  const cards = camera.k >= CARD_ZOOM;
  for (const link of view.links) drawLink(ctx, link, scene, palette, camera.k);
  for (const item of view.items) {
    if (item.bundle) drawBundle(ctx, item, scene, palette, marks);
    else if (!cards) drawNode(ctx, item, scene, palette, marks);
  }
}

function drawLink(ctx: CanvasRenderingContext2D, link: Link, scene: Scene, palette: Palette, k: number): void {
  if (link.ys.length === 0) return;
  const middle = link.x1 + (link.x2 - link.x1) * 0.42;
  const bend = Math.min(12 * Math.max(k, 0.4), (link.x2 - middle) / 2);
  ctx.lineWidth = k > 0.4 ? 1.5 : 1;
  ctx.strokeStyle = palette.edge;
  ctx.beginPath();
  ctx.moveTo(link.x1, link.y1);
  ctx.lineTo(middle, link.y1);
  let before = -Infinity;
  for (const y of link.ys) {
    if (Math.abs(y - before) < 1) continue;
    before = y;
    if (Math.abs(y - link.y1) < 1) {
      ctx.moveTo(middle, y);
      ctx.lineTo(link.x2, y);
      continue;
    }
    const r = Math.min(bend, Math.abs(y - link.y1));
    ctx.moveTo(middle, link.y1);
    ctx.arcTo(middle, y, link.x2, y, r);
    ctx.lineTo(link.x2, y);
  }
  ctx.stroke();
  // The way to what is at work or has failed stands out.
  for (const [i, child] of link.to.entries()) {
    const status = scene.graph!.nodes[child]!.status;
    const tone = NODE_LOOKS[status].tone;
    if (tone !== 'warm' && tone !== 'agg' && tone !== 'bad') continue;
    const y = link.ys[i]!;
    ctx.strokeStyle = palette.tone[statusIndex(status)]!;
    ctx.beginPath();
    ctx.moveTo(middle + bend, y);
    ctx.lineTo(link.x2, y);
    ctx.stroke();
  }
}

function box(ctx: CanvasRenderingContext2D, item: Item, radius: number): void {
  ctx.beginPath();
  ctx.roundRect(item.x, item.y, item.width, item.height, Math.min(radius, item.height / 2));
}

function outline(ctx: CanvasRenderingContext2D, item: Item, palette: Palette, marks: Marks): void {
  if (item.at !== marks.selected && !marks.matches?.has(item.at)) return;
  ctx.setLineDash([]);
  ctx.strokeStyle = palette.focus;
  ctx.lineWidth = item.at === marks.selected ? 3 : 2;
  ctx.beginPath();
  ctx.roundRect(item.x - 3, item.y - 3, item.width + 6, item.height + 6, 9);
  ctx.stroke();
}

function drawNode(ctx: CanvasRenderingContext2D, item: Item, scene: Scene, palette: Palette, marks: Marks): void {
  const node = scene.graph!.nodes[item.at]!;
  const s = statusIndex(node.status);
  const faded = marks.matches !== undefined && !marks.matches.has(item.at);
  ctx.globalAlpha = faded ? 0.35 : 1;
  box(ctx, item, 6);
  ctx.fillStyle = item.height < 9 ? palette.tone[s]! : palette.toneBg[s]!;
  ctx.fill();
  if (item.height >= 9) {
    ctx.setLineDash(DASHED.has(node.status) ? [4, 3] : []);
    ctx.strokeStyle = palette.tone[s]!;
    ctx.lineWidth = 1.25;
    ctx.stroke();
    ctx.setLineDash([]);
  }
  if (item.height >= 13) {
    const mark = Math.min(5, item.height / 4);
    ctx.fillStyle = palette.tone[s]!;
    ctx.beginPath();
    ctx.roundRect(item.x + 6, item.y + item.height / 2 - mark, mark * 2, mark * 2, node.role === 'planner' ? 2 : mark);
    ctx.fill();
    label(ctx, node.title, item, item.x + 11 + mark * 2, item.height > 34 ? -7 : 0, palette.text, palette, 600);
    if (item.height > 34)
      label(ctx, NODE_LOOKS[node.status].label, item, item.x + 11 + mark * 2, 8, palette.muted, palette, 500);
  }
  ctx.globalAlpha = 1;
  outline(ctx, item, palette, marks);
}

function label(
  ctx: CanvasRenderingContext2D,
  text: string,
  item: Item,
  x: number,
  dy: number,
  color: string,
  palette: Palette,
  weight: number,
): void {
  ctx.save();
  ctx.beginPath();
  ctx.rect(item.x, item.y, item.width - 5, item.height);
  ctx.clip();
  ctx.fillStyle = color;
  ctx.font = `${weight} 11px ${palette.font}`;
  ctx.textBaseline = 'middle';
  ctx.textAlign = 'left';
  const room = Math.max(4, Math.ceil((item.width - (x - item.x)) / 3.5));
  ctx.fillText(text.slice(0, room), x, item.y + item.height / 2 + dy);
  ctx.restore();
}

/** A subtree as one node: how many there are, what they do, and whether any failed. */
function drawBundle(ctx: CanvasRenderingContext2D, item: Item, scene: Scene, palette: Palette, marks: Marks): void {
  const total = scene.total(item.at);
  const faded = marks.matches !== undefined && !marks.matches.has(item.at);
  ctx.globalAlpha = faded ? 0.5 : 1;
  // A stack of sheets behind it says that there is more inside.
  if (item.height > 12 && item.height < 200) {
    ctx.fillStyle = palette.surface;
    ctx.strokeStyle = palette.edge;
    ctx.lineWidth = 1;
    ctx.beginPath();
    ctx.roundRect(item.x + 4, item.y + 3, item.width, item.height - 2, Math.min(7, item.height / 2));
    ctx.fill();
    ctx.stroke();
  }
  box(ctx, item, 7);
  ctx.fillStyle = palette.surface;
  ctx.fill();
  ctx.save();
  ctx.clip();
  const bar = item.height < 13 ? item.height : Math.max(4, Math.min(item.height * 0.25, 8));
  let x = item.x;
  let room = item.width;
  const shares = STACK.filter((s) => scene.tally(item.at, s) > 0);
  for (const [i, s] of shares.entries()) {
    const share = (item.width * scene.tally(item.at, s)) / total;
    const width = i === shares.length - 1 ? room : Math.min(Math.max(share, 3), room);
    ctx.fillStyle = palette.tone[s]!;
    ctx.fillRect(x, item.y + item.height - bar, width, bar);
    x += width;
    room -= width;
  }
  ctx.restore();
  const failed = scene.tally(item.at, FAILED);
  box(ctx, item, 7);
  ctx.strokeStyle = failed > 0 ? palette.tone[FAILED]! : palette.edge;
  ctx.lineWidth = failed > 0 ? 2 : 1.25;
  ctx.stroke();
  if (item.height >= 14) {
    const counts = STACK.filter((s) => s !== 5 && scene.tally(item.at, s) > 0)
      .slice(0, 3)
      .map((s) => `${short(scene.tally(item.at, s))} ${NODE_LOOKS[NODE_STATUSES[s]!].label.toLowerCase()}`);
    const summary = [`${short(total)} nodes`, ...counts].join(' · ');
    const two = item.height > 40;
    if (two) label(ctx, scene.graph!.nodes[item.at]!.title, item, item.x + 8, -11, palette.text, palette, 600);
    label(ctx, summary, item, item.x + 8, two ? 4 : -bar / 2, failed > 0 ? palette.tone[FAILED]! : palette.muted, palette, 600);
  }
  ctx.globalAlpha = 1;
  outline(ctx, item, palette, marks);
}
