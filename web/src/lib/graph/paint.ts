// Draws what `visible` chose: edges at every zoom, nodes below the zoom of the cards.

import { expansionOf, statusIndex } from '../projection/model';
import { DASHED, lookOf, NODE_LOOKS } from '../status';
import type { Camera, Size } from './camera';
import { drawBundle } from './paint-bundle';
import { drawIcon, drawMark, ellipsis, outline, rounded, setFont, type Marks } from './paint-parts';
import type { Palette } from './palette';
import type { Scene } from './scene';
import { CARD_ZOOM, type Item, type Link, type View } from './visible';

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
    if (marks.absent?.has(item.at)) {
      if (item.bundle || !cards) drawAbsent(ctx, item, palette, marks);
    } else if (item.bundle) drawBundle(ctx, item, scene, palette, marks);
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
  // Edges to nodes that are active or have failed stand out.
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

function drawNode(ctx: CanvasRenderingContext2D, item: Item, scene: Scene, palette: Palette, marks: Marks): void {
  const node = scene.graph!.nodes[item.at]!;
  const s = statusIndex(node.status);
  const faded = marks.matches !== undefined && !marks.matches.has(item.at);
  ctx.globalAlpha = faded ? 0.35 : 1;
  rounded(ctx, item, 6);
  const hasChildren = scene.hasChildren(item.at);
  const hollow = expansionOf(node, hasChildren) === 'unexpanded';
  ctx.fillStyle = hollow ? palette.surface : item.height < 9 ? palette.tone[s]! : palette.toneBg[s]!;
  ctx.fill();
  if (item.height >= 9 || hollow) {
    ctx.setLineDash(DASHED.has(node.status) ? [4, 3] : []);
    ctx.strokeStyle = palette.tone[s]!;
    ctx.lineWidth = 1.25;
    ctx.stroke();
    ctx.setLineDash([]);
  }
  // Text is never faded: it would be too pale to read.
  ctx.globalAlpha = 1;
  if (item.height >= 13) {
    const icon = Math.min(11, item.height - 4);
    const room = { ...item, width: item.width - drawMark(ctx, item, node, palette) };
    drawIcon(ctx, s, item.x + 6, item.y + (item.height - icon) / 2, icon, palette);
    label(
      ctx,
      node.title,
      room,
      item.x + 10 + icon,
      item.height > 34 ? -7 : 0,
      faded ? palette.muted : palette.text,
      palette,
      600,
    );
    if (item.height > 34)
      label(ctx, lookOf(node, hasChildren).label, room, item.x + 10 + icon, 8, palette.muted, palette, 500);
  }
  outline(ctx, item, palette, marks);
}

/** The place of a node that is not there. */
function drawAbsent(ctx: CanvasRenderingContext2D, item: Item, palette: Palette, marks: Marks): void {
  rounded(ctx, item, 6);
  ctx.setLineDash([2, 3]);
  ctx.strokeStyle = palette.edge;
  ctx.lineWidth = 1;
  ctx.stroke();
  ctx.setLineDash([]);
  if (item.at === marks.selected) outline(ctx, item, palette, marks);
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
  ctx.fillStyle = color;
  setFont(ctx, weight, palette);
  ctx.fillText(ellipsis(ctx, weight, text, item.width - (x - item.x) - 6), x, item.y + item.height / 2 + dy);
}
