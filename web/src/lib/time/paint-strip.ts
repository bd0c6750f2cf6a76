// Draws the strip of a run's time: how many nodes are active, failures, and flags of what stands out.

import { duration } from '../format';
import { setFont, widthOf } from '../graph/paint-parts';
import type { Palette } from '../graph/palette';
import { statusIndex } from '../projection/model';
import { LAYERS, type Course, type FlagKind } from './course';

const TOP = 10;
/** The axis below the layers. */
const AXIS = 13;
/** Marks of the axis stand at least this far apart. */
const TICK_PX = 70;
/** Flags that would stand nearer than this are drawn once. */
const LEAST_APART_PX = 4;

/** A place in pixels, and back. */
export interface Scale {
  width: number;
  end: number;
}
export const toX = ({ width, end }: Scale, place: number): number => (place / end) * width;
export const toPlace = ({ width, end }: Scale, x: number): number =>
  (Math.min(Math.max(0, x), width) / Math.max(1, width)) * end;

export const FLAG_WORDS: Record<FlagKind, string> = {
  failure: 'failed',
  plan: 'plan',
  replan: 'new plan',
  steering: 'a person steered',
  fork: 'fork',
};

/** Draws all of it. What comes after `shown`, the event that is shown, is pale; undefined for the present. */
export function paintStrip(
  ctx: CanvasRenderingContext2D,
  height: number,
  course: Course,
  scale: Scale,
  shown: number | undefined,
  palette: Palette,
): void {
  ctx.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
  ctx.clearRect(0, 0, scale.width, height);
  const cursor = shown === undefined ? scale.width : toX(scale, course.place(shown));
  paintAxis(ctx, height, course, scale, palette);
  paintLayers(ctx, height - AXIS, course, scale, palette);
  paintFlags(ctx, height - AXIS, course, scale, palette);
  if (shown === undefined) return;
  ctx.globalAlpha = 0.72;
  ctx.fillStyle = palette.surface;
  ctx.fillRect(cursor + 1, 0, scale.width - cursor, height);
  ctx.globalAlpha = 1;
  ctx.fillStyle = palette.focus;
  ctx.fillRect(cursor - 1, 0, 2, height);
}

function paintAxis(
  ctx: CanvasRenderingContext2D,
  height: number,
  course: Course,
  scale: Scale,
  palette: Palette,
): void {
  setFont(ctx, 500, palette);
  ctx.fillStyle = palette.muted;
  let last = -Infinity;
  for (const { place, ms } of course.ticks(scale.end, Math.max(1, Math.floor(scale.width / TICK_PX)))) {
    const x = toX(scale, place);
    const text = ms === 0 ? '0' : duration(ms);
    const left = Math.min(x + 3, scale.width - widthOf(ctx, text));
    if (left < last + 8) continue;
    last = left + widthOf(ctx, text);
    ctx.fillRect(Math.min(x, scale.width - 1), height - AXIS, 1, AXIS - 2);
    ctx.fillText(text, left, height - AXIS / 2 + 0.5);
  }
  // A time without work is cut short: two strokes across it.
  ctx.strokeStyle = palette.muted;
  ctx.lineWidth = 1.25;
  for (const { place } of course.gaps) {
    const x = toX(scale, place) - 6;
    ctx.beginPath();
    for (const by of [0, 4]) {
      ctx.moveTo(x + by - 2, height - AXIS - 2);
      ctx.lineTo(x + by + 2, height - AXIS - 14);
    }
    ctx.stroke();
  }
}

function paintLayers(
  ctx: CanvasRenderingContext2D,
  height: number,
  course: Course,
  scale: Scale,
  palette: Palette,
): void {
  const room = height - TOP - 1;
  const unit = room / Math.max(1, course.most);
  ctx.fillStyle = palette.line;
  ctx.fillRect(0, height - 1, scale.width, 1);
  // One column of pixels after the other: the most that was active within it, so that short work stays visible.
  let from = 1;
  for (let x = 0; x < scale.width; x++) {
    const to = Math.max(from, course.seqAt(toPlace(scale, x + 1)));
    let [at, most] = [to, -1];
    // A long log has many events in one column; a few of them tell enough.
    for (let seq = from, step = Math.max(1, (to - from) >> 5); seq <= to; seq += step) {
      const sum = LAYERS.reduce((n, _, layer) => n + course.count(layer, seq), 0);
      if (sum > most) [at, most] = [seq, sum];
    }
    let y = height - 1;
    for (const [layer, name] of LAYERS.entries()) {
      const tall = course.count(layer, at) * unit;
      if (tall <= 0) continue;
      ctx.fillStyle = palette.tone[statusIndex(name)]!;
      ctx.globalAlpha = name === 'planning' ? 0.55 : 0.9;
      ctx.fillRect(x, y - tall, 1, tall);
      y -= tall;
    }
    from = to;
  }
  ctx.globalAlpha = 1;
}

function paintFlags(
  ctx: CanvasRenderingContext2D,
  height: number,
  course: Course,
  scale: Scale,
  palette: Palette,
): void {
  const last = new Map<FlagKind, number>();
  for (const { seq, kind } of course.flags) {
    const x = toX(scale, course.place(seq));
    if (x - (last.get(kind) ?? -Infinity) < LEAST_APART_PX) continue;
    last.set(kind, x);
    if (kind === 'failure') {
      ctx.fillStyle = palette.tone[statusIndex('failed')]!;
      ctx.fillRect(x - 1, TOP, 2, height - TOP);
      continue;
    }
    ctx.fillStyle = kind === 'plan' ? palette.muted : palette.focus;
    ctx.strokeStyle = ctx.fillStyle;
    ctx.lineWidth = 1;
    ctx.beginPath();
    // Plans are small triangles at the top; what is rarer is a flag on a pole.
    if (kind === 'plan') {
      ctx.moveTo(x - 3, 1);
      ctx.lineTo(x + 3, 1);
      ctx.lineTo(x, 6);
    } else {
      ctx.moveTo(x, height);
      ctx.lineTo(x, 1);
      ctx.stroke();
      ctx.lineTo(x + 7, 4);
      ctx.lineTo(x, 7);
    }
    ctx.fill();
  }
}
