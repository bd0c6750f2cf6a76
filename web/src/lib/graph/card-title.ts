// The lines of a title on an HTML card, measured as the browser will draw them.

import { linesOf } from './paint-parts';
import type { Line, Shared } from './title';

let measuring: OffscreenCanvasRenderingContext2D | undefined;
let family = '';

/** At most so many lines for a card of this width inside, in pixels of its own. */
export function cardTitle(title: string, shared: Shared, room: number, fontPx: number, most: number): Line[] {
  measuring ??= new OffscreenCanvas(1, 1).getContext('2d')!;
  family ||= getComputedStyle(document.documentElement).fontFamily;
  measuring.font = `620 ${fontPx.toFixed(1)}px ${family}`;
  return linesOf(measuring, title, shared, room, most);
}
