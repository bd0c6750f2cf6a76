// Drawing that nodes and bundles share.

import { ICONS } from '../icons';
import { NODE_STATUSES, type GraphNode } from '../projection/model';
import { activityText, type Activity } from '../phrases';
import type { PickNumber } from '../picks';
import { NODE_LOOKS } from '../status';
import type { Palette } from './palette';
import { titleLines, type Line, type Shared } from './title';
import { LEAST_FONT_PX, type Item } from './visible';

/** When a frame is drawn, and whether what is active pulses in it. */
export interface Time {
  now: number;
  pulses: boolean;
}

export interface Marks {
  selected: number;
  matches: ReadonlySet<number> | undefined;
  /** Nodes that another graph has in these places, and this one has not. */
  absent?: ReadonlySet<number>;
  /** Nodes that have matches below them, and stand out where they stand for their subtree. */
  above?: ReadonlySet<number>;
  /** Nodes that something else on the page points at. */
  lit?: ReadonlySet<number>;
  picks?: PickNumber;
  /** What a node does, and for how long it has, in milliseconds. */
  says?: (node: GraphNode, at: number) => { activity: Activity; took: number | undefined };
  /** False while the page may be out of date. Nothing pulses then. */
  fresh: boolean;
}

export function rounded(ctx: CanvasRenderingContext2D, item: Item, radius: number): void {
  ctx.beginPath();
  ctx.roundRect(item.x, item.y, item.width, item.height, Math.min(radius, item.height / 2));
}

export function outline(ctx: CanvasRenderingContext2D, item: Item, palette: Palette, marks: Marks): void {
  const lit = marks.lit?.has(item.at) || marks.matches?.has(item.at) || (item.bundle && marks.above?.has(item.at));
  if (item.at !== marks.selected && !lit) return;
  ctx.setLineDash([]);
  ctx.strokeStyle = palette.focus;
  ctx.lineWidth = item.at === marks.selected ? 3 : 2;
  ctx.beginPath();
  ctx.roundRect(item.x - 3, item.y - 3, item.width + 6, item.height + 6, 9);
  ctx.stroke();
}

/** A pulse lasts this long. */
const PULSE_MS = 1600;

/** A ring that grows and fades, as on cards. */
export function drawPulse(ctx: CanvasRenderingContext2D, item: Item, color: string, { now, pulses }: Time): void {
  if (!pulses) return;
  const part = (now % PULSE_MS) / PULSE_MS;
  const by = Math.min(5, item.height / 8) * part;
  const before = ctx.globalAlpha;
  ctx.globalAlpha = before * 0.6 * (1 - part);
  ctx.strokeStyle = color;
  ctx.lineWidth = 2;
  ctx.beginPath();
  ctx.roundRect(item.x - by, item.y - by, item.width + 2 * by, item.height + 2 * by, 6 + by);
  ctx.stroke();
  ctx.globalAlpha = before;
}

type Measuring = CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D;

/** Caches: measuring text and stroking paths is slow, and every frame needs the same ones. */
const MOST_KNOWN = 4000;
const widths = new Map<string, number>();
const shortened = new Map<string, string>();
const titles = new Map<string, Line[]>();
const icons = new Map<string, OffscreenCanvas>();

function remember<T>(known: Map<string, T>, key: string, make: () => T): T {
  let value = known.get(key);
  if (value === undefined) {
    if (known.size >= MOST_KNOWN) known.clear();
    known.set(key, (value = make()));
  }
  return value;
}

/** The icon of a status, as on cards and in lists. */
export function drawIcon(
  ctx: CanvasRenderingContext2D,
  status: number,
  x: number,
  y: number,
  size: number,
  palette: Palette,
): void {
  drawNamed(ctx, NODE_LOOKS[NODE_STATUSES[status]!].icon, palette.tone[status]!, x, y, size);
}

/** Any icon, in a colour. */
export function drawNamed(
  ctx: CanvasRenderingContext2D,
  name: string,
  color: string,
  x: number,
  y: number,
  size: number,
): void {
  const pixels = Math.ceil(size * devicePixelRatio);
  const icon = remember(icons, `${name}|${color}|${pixels}`, () => {
    const created = new OffscreenCanvas(pixels, pixels);
    const on = created.getContext('2d')!;
    on.scale(pixels / 16, pixels / 16);
    on.lineWidth = 2.2;
    on.lineCap = 'round';
    on.strokeStyle = color;
    on.stroke(new Path2D(ICONS[name] ?? ''));
    return created;
  });
  ctx.drawImage(icon, Math.round(x), Math.round(y), size, size);
}

/** What people have done to a node, as an icon at its right edge. Returns the room that it takes. */
export function drawMark(ctx: CanvasRenderingContext2D, item: Item, node: GraphNode, palette: Palette): number {
  const mark =
    node.paused === true
      ? 'pause'
      : node.stopped === true
        ? 'stop'
        : node.generation !== undefined
          ? 'again'
          : undefined;
  if (mark === undefined || item.height < 13 || item.width < 40) return 0;
  const size = Math.min(11, item.height - 4);
  drawNamed(ctx, mark, palette.text, item.x + item.width - size - 6, item.y + (item.height - size) / 2, size);
  return size + 4;
}

/** Sets the font of labels; a weight has three digits. */
export function setFont(ctx: CanvasRenderingContext2D, weight: number, palette: Palette): void {
  ctx.font = `${weight} ${LEAST_FONT_PX}px ${palette.font}`;
  ctx.textBaseline = 'middle';
  ctx.textAlign = 'left';
}

/** The width of a short text in the font that is set. */
export function widthOf(ctx: Measuring, text: string): number {
  return remember(widths, `${ctx.font}|${text}`, () => ctx.measureText(text).width);
}

/** As much of a text as there is room for. The font of this weight must be set. */
export function ellipsis(ctx: CanvasRenderingContext2D, weight: number, text: string, room: number): string {
  // Titles can be long, and no character is narrower than two pixels here.
  const most = Math.max(0, Math.ceil(room / 2));
  const seen = text.slice(0, most + 1);
  return remember(shortened, `${weight}|${Math.floor(room)}|${seen}`, () => {
    if (seen.length <= most && ctx.measureText(seen).width <= room) return seen;
    let least = 0;
    let longest = Math.min(seen.length, most);
    while (least < longest) {
      const middle = (least + longest + 1) >> 1;
      if (ctx.measureText(`${seen.slice(0, middle)}…`).width <= room) least = middle;
      else longest = middle - 1;
    }
    return least === 0 ? '' : `${seen.slice(0, least).trimEnd()}…`;
  });
}

/** What a node does in little room. The state of a tool stays whole: first its document goes, then its name is cut. */
export function fitted(ctx: CanvasRenderingContext2D, weight: number, activity: Activity, room: number): string {
  const { what, state } = activity;
  if (state === undefined) return ellipsis(ctx, weight, what, room);
  const whole = `${what} ${state}`;
  if (widthOf(ctx, whole) <= room) return ellipsis(ctx, weight, activityText(activity), room);
  const name = ellipsis(ctx, weight, what.replace('TOOL: ', ''), room - widthOf(ctx, ` ${state}`));
  return name === '' ? ellipsis(ctx, weight, state, room) : `${name} ${state}`;
}

const RIGHT_TO_LEFT = /^[^\p{L}]*[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}]/u;

/** Lines of a title for a room, in the font that is set. */
export function linesOf(ctx: Measuring, title: string, shared: Shared, room: number, most: number): Line[] {
  const width = Math.floor(room);
  const key = `${ctx.font}|${width}|${most}|${shared.before}|${shared.after}|${title.slice(0, 240)}`;
  const fits = (text: string): boolean => widthOf(ctx, text) <= width;
  return remember(titles, key, () => titleLines(title, shared, most, fits));
}

/** Draws lines from a middle line downwards. */
export function drawLines(
  ctx: CanvasRenderingContext2D,
  lines: readonly Line[],
  at: { x: number; y: number; room: number; height: number },
  color: string,
  dimmed: string,
): void {
  for (const [i, line] of lines.entries()) {
    const y = at.y + i * at.height;
    const whole = line.map((run) => run.text).join('');
    if (RIGHT_TO_LEFT.test(whole)) {
      // The browser orders the words, so the line is one text.
      [ctx.direction, ctx.textAlign] = ['rtl', 'right'];
      ctx.fillStyle = color;
      ctx.fillText(whole, at.x + Math.min(at.room, widthOf(ctx, whole)), y);
      [ctx.direction, ctx.textAlign] = ['ltr', 'left'];
      continue;
    }
    let x = at.x;
    for (const { text, dim } of line) {
      ctx.fillStyle = dim ? dimmed : color;
      ctx.fillText(text, x, y);
      x += widthOf(ctx, text);
    }
  }
}
