// The design tokens for the canvas, resolved for the current theme.

import { NODE_STATUSES } from '../projection/model';
import { NODE_LOOKS } from '../status';

export interface Palette {
  line: string;
  edge: string;
  surface: string;
  text: string;
  muted: string;
  focus: string;
  /** By index in `NODE_STATUSES`. */
  tone: string[];
  toneBg: string[];
  toneText: string[];
  font: string;
}

/** A high-contrast theme draws everything in its own few colours; icons and words tell statuses apart. */
function forced(font: string): Palette {
  const all = (color: string): string[] => NODE_STATUSES.map(() => color);
  return {
    line: 'CanvasText',
    edge: 'CanvasText',
    surface: 'Canvas',
    text: 'CanvasText',
    muted: 'CanvasText',
    focus: 'Highlight',
    tone: all('CanvasText'),
    toneBg: all('Canvas'),
    toneText: all('CanvasText'),
    font,
  };
}

export function readPalette(element: HTMLElement): Palette {
  const font = getComputedStyle(element).fontFamily;
  if (matchMedia('(forced-colors: active)').matches) return forced(font);
  const probe = document.createElement('span');
  element.append(probe);
  const color = (name: string): string => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const palette: Palette = {
    line: color('line'),
    edge: color('line-strong'),
    surface: color('surface'),
    text: color('text'),
    muted: color('text-2'),
    focus: color('focus'),
    tone: NODE_STATUSES.map((s) => color(NODE_LOOKS[s].tone)),
    toneBg: NODE_STATUSES.map((s) => color(`${NODE_LOOKS[s].tone}-bg`)),
    toneText: NODE_STATUSES.map((s) => color(`${NODE_LOOKS[s].tone}-text`)),
    font,
  };
  probe.remove();
  return palette;
}
