// Draws what `visible` chose: edges at every zoom, nodes below the zoom of the cards.

import { ACTIVE_STATUSES, statusIndex } from '../projection/model';
import { NODE_LOOKS } from '../status';
import { bandWords } from './bands';
import type { Camera } from './camera';
import type { Size } from './tidy';
import { drawBundle } from './paint-bundle';
import { drawNode } from './paint-node';
import { ellipsis, outline, rounded, setFont, type Marks, type Time } from './paint-parts';
import type { Palette } from './palette';
import type { Scene } from './scene';
import { AROUND, CARD_ZOOM, type Grid, type Item, type Link, type View } from './visible';

/** Below this zoom there is no room for the name of a band above its first node. */
const LEAST_BAND_ZOOM = 0.32;

/** Draws one frame. Returns true if something in it pulses. */
export function paint(
  ctx: CanvasRenderingContext2D,
  size: Size,
  ratio: number,
  scene: Scene,
  camera: Camera,
  view: View,
  palette: Palette,
  marks: Marks,
  time: Time,
): boolean {
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.clearRect(0, 0, size.width, size.height);
  const cards = camera.k >= CARD_ZOOM;
  for (const grid of view.grids) drawGrid(ctx, grid, scene, palette, time);
  for (const link of view.links) drawLink(ctx, link, scene, palette, camera.k, time);
  let pulses = false;
  if (camera.k >= LEAST_BAND_ZOOM) for (const item of view.items) drawBand(ctx, item, scene, camera.k, palette, time);
  for (const item of view.items) {
    const opaque = scene.shown(item.at, time.now);
    if (opaque === 0) continue;
    if (marks.absent?.has(item.at)) {
      if (item.bundle || !cards) drawAbsent(ctx, item, palette, marks);
    } else if (item.bundle) {
      const active = drawBundle(ctx, item, scene, palette, marks, time);
      pulses ||= active;
    } else if (!cards) {
      drawNode(ctx, item, scene, palette, marks, time, opaque);
      pulses ||= ACTIVE_STATUSES.has(scene.graph!.nodes[item.at]!.status);
    }
  }
  return pulses && time.pulses;
}

function drawLink(
  ctx: CanvasRenderingContext2D,
  link: Link,
  scene: Scene,
  palette: Palette,
  k: number,
  time: Time,
): void {
  if (link.ys.length === 0) return;
  const middle = link.x1 + (link.x2 - link.x1) * 0.42;
  const bend = Math.max(0, Math.min(12 * Math.max(k, 0.4), (link.x2 - middle) / 2));
  ctx.lineWidth = k > 0.4 ? 1.5 : 1;
  ctx.strokeStyle = palette.edge;
  ctx.beginPath();
  ctx.moveTo(link.x1, link.y1);
  ctx.lineTo(middle, link.y1);
  let before = -Infinity;
  for (const [i, y] of link.ys.entries()) {
    const drawn = scene.drawnEdge(link.to[i]!, time.now);
    if (drawn < 1) {
      drawPart(ctx, link, middle, y, drawn);
      continue;
    }
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
  const isGrid = scene.grids[link.from]! > 0;
  // Edges to nodes that are active or have failed stand out.
  for (const [i, child] of link.to.entries()) {
    const status = scene.graph!.nodes[child]!.status;
    const tone = NODE_LOOKS[status].tone;
    const y = link.ys[i]!;
    if (scene.sparks.has(child)) drawSpark(ctx, link, middle, y, scene.sparkAt(child, time.now), palette);
    if (isGrid || (tone !== 'warm' && tone !== 'agg' && tone !== 'bad')) continue;
    if (scene.drawnEdge(child, time.now) < 1) continue;
    ctx.strokeStyle = palette.tone[statusIndex(status)]!;
    ctx.beginPath();
    ctx.moveTo(middle + bend, y);
    ctx.lineTo(link.x2, y);
    ctx.stroke();
  }
}

/** The corners of an edge, and how far along it each is, from 0 to 1. */
function corners(link: Link, middle: number, y: number): { x: number; y: number; at: number }[] {
  const lengths = [middle - link.x1, Math.abs(y - link.y1), link.x2 - middle];
  const whole = Math.max(1, lengths[0]! + lengths[1]! + lengths[2]!);
  return [
    { x: link.x1, y: link.y1, at: 0 },
    { x: middle, y: link.y1, at: lengths[0]! / whole },
    { x: middle, y, at: (lengths[0]! + lengths[1]!) / whole },
    { x: link.x2, y, at: 1 },
  ];
}

/** The point so far along an edge. */
function along(link: Link, middle: number, y: number, part: number): { x: number; y: number; past: number } {
  const path = corners(link, middle, y);
  const past = Math.max(
    0,
    path.findLastIndex((corner) => corner.at <= part && corner.at < 1),
  );
  const [a, b] = [path[past]!, path[past + 1]!];
  const t = b.at > a.at ? (part - a.at) / (b.at - a.at) : 1;
  return { x: a.x + (b.x - a.x) * t, y: a.y + (b.y - a.y) * t, past };
}

/** An edge that is still being drawn. */
function drawPart(ctx: CanvasRenderingContext2D, link: Link, middle: number, y: number, part: number): void {
  const end = along(link, middle, y, part);
  ctx.moveTo(link.x1, link.y1);
  for (const { x, y: cy } of corners(link, middle, y).slice(1, end.past + 1)) ctx.lineTo(x, cy);
  ctx.lineTo(end.x, end.y);
}

/** A dot that runs from a node that has completed to its parent. */
function drawSpark(
  ctx: CanvasRenderingContext2D,
  link: Link,
  middle: number,
  y: number,
  part: number,
  palette: Palette,
): void {
  const { x, y: cy } = along(link, middle, y, 1 - part);
  ctx.fillStyle = palette.tone[statusIndex('completed')]!;
  ctx.beginPath();
  ctx.arc(x, cy, 4, 0, 2 * Math.PI);
  ctx.fill();
}

/** The box around a family that stands as a grid. */
function drawGrid(ctx: CanvasRenderingContext2D, grid: Grid, scene: Scene, palette: Palette, time: Time): void {
  const first = scene.graph!.childrenOf(grid.parent)[0];
  ctx.globalAlpha = first === undefined ? 1 : scene.shown(first, time.now);
  ctx.beginPath();
  ctx.roundRect(grid.x, grid.y, grid.width, grid.height, 10);
  ctx.strokeStyle = palette.line;
  ctx.lineWidth = 1.25;
  ctx.stroke();
  if (first !== undefined && scene.graph!.nodes[first]!.task !== undefined) drawIterations(ctx, grid, scene, palette);
  ctx.globalAlpha = 1;
}

/** Above a grid of homework: which iteration each column is. */
function drawIterations(ctx: CanvasRenderingContext2D, grid: Grid, scene: Scene, palette: Palette): void {
  const columns = scene.grids[grid.parent]!;
  const width = grid.width / columns;
  if (width < 60) return;
  setFont(ctx, 600, palette);
  ctx.fillStyle = palette.muted;
  for (let i = 0; i < columns; i++) ctx.fillText(`Iteration ${i + 1}`, grid.x + i * width + 10, grid.y - 9);
}

/** Above the first node of a band: whether it comes first or then. */
function drawBand(
  ctx: CanvasRenderingContext2D,
  item: Item,
  scene: Scene,
  k: number,
  palette: Palette,
  time: Time,
): void {
  const words = bandWords(scene.graph!, scene.bands, item.at);
  if (words === undefined) return;
  const { parents, children } = scene.graph!.shape;
  const parent = parents[item.at]!;
  // Above the box of a grid, if it begins that.
  const above = scene.grids[parent]! > 0 && children[parent]![0] === item.at ? Math.max(3, AROUND * k) : 0;
  setFont(ctx, 600, palette);
  ctx.globalAlpha = scene.shown(item.at, time.now);
  ctx.fillStyle = palette.muted;
  ctx.fillText(ellipsis(ctx, 600, words, item.width), item.x + 4, item.y - above - 8);
  ctx.globalAlpha = 1;
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
