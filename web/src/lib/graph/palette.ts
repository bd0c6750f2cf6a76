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

export function readPalette(element: HTMLElement): Palette {
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
    font: getComputedStyle(element).fontFamily,
  };
  probe.remove();
  return palette;
}
