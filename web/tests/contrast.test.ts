import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

const css = readFileSync(new URL('../src/app.css', import.meta.url), 'utf8');
const tokens = new Map(
  [...css.matchAll(/--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)/g)].map((m) => [m[1]!, [m[2]!, m[3]!]]),
);

function linear(color: string): number[] {
  return [1, 3, 5].map((at) => {
    const c = Number.parseInt(color.slice(at, at + 2), 16) / 255;
    return c <= 0.040_45 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  });
}

function luminance(color: string): number {
  const [r, g, b] = linear(color);
  return 0.2126 * r! + 0.7152 * g! + 0.0722 * b!;
}

function contrast(a: string, b: string): number {
  const [high, low] = [luminance(a), luminance(b)].toSorted((x, y) => y - x);
  return (high! + 0.05) / (low! + 0.05);
}

const TONES = ['warm', 'agg', 'cool', 'good', 'bad', 'held', 'off'];
const TEXT: [string, string[]][] = [
  ['text', ['bg', 'surface', 'raised', 'sunken', 'hover', 'accent-soft', 'canvas']],
  ['text-2', ['bg', 'surface', 'sunken', 'hover', 'accent-soft']],
  ['text-3', ['bg', 'surface', 'sunken', 'hover', 'accent-soft']],
  ['accent', ['surface', 'accent-soft', 'bg', 'sunken']],
  ...TONES.map((t): [string, string[]] => [`${t}-text`, [`${t}-bg`, 'surface', 'sunken', 'hover', 'accent-soft']]),
];

/**
 * How colours look with a colour vision deficiency: Machado, Oliveira and Fernandes 2009, on linear RGB, severity 1.
 */
const BLINDNESS = {
  none: [1, 0, 0, 0, 1, 0, 0, 0, 1],
  protanopia: [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998],
  deuteranopia: [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.01182, 0.04294, 0.968881],
  tritanopia: [1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.3039],
};

/** CIE L*a*b* of a colour as it is perceived. */
function lab(color: string, seen: number[]): [number, number, number] {
  const rgb = linear(color);
  const [r, g, b] = [0, 1, 2].map((row) =>
    Math.min(
      1,
      Math.max(
        0,
        rgb.reduce((sum, v, i) => sum + seen[row * 3 + i]! * v, 0),
      ),
    ),
  );
  const f = (t: number): number => (t > 0.008856 ? Math.cbrt(t) : 7.787 * t + 16 / 116);
  const x = f((0.4124 * r! + 0.3576 * g! + 0.1805 * b!) / 0.9505);
  const y = f(0.2126 * r! + 0.7152 * g! + 0.0722 * b!);
  const z = f((0.0193 * r! + 0.1192 * g! + 0.9505 * b!) / 1.089);
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

describe.each(['light', 'dark'])('in %s', (theme) => {
  const color = (name: string): string => {
    const pair = tokens.get(name);
    if (pair === undefined) throw new Error(`there is no token ${name}`);
    return pair[theme === 'light' ? 0 : 1]!;
  };

  it('every text has the contrast of WCAG AA', () => {
    const low = TEXT.flatMap(([text, grounds]) =>
      grounds
        .map((ground) => [text, ground, contrast(color(text), color(ground))] as const)
        .filter(([, , ratio]) => ratio < 4.5),
    );
    expect(low).toEqual([]);
    expect(contrast('#ffffff', color('accent-bg'))).toBeGreaterThanOrEqual(4.5);
  });

  it('every mark stands out from its background', () => {
    const low = [...TONES, 'focus'].flatMap((t) =>
      ['surface', 'canvas']
        .map((ground) => [t, ground, contrast(color(t), color(ground))] as const)
        .filter(([, , ratio]) => ratio < 3),
    );
    expect(low).toEqual([]);
  });

  it.each(Object.entries(BLINDNESS))('no two tones look alike with colour blindness: %s', (_, seen) => {
    // A difference of 2.3 is just noticeable; bars of a few pixels need several times that.
    const close = TONES.flatMap((a, i) =>
      TONES.slice(i + 1).map(
        (b) => [a, b, Math.hypot(...lab(color(a), seen).map((v, at) => v - lab(color(b), seen)[at]!))] as const,
      ),
    ).filter(([, , distance]) => distance < 14);
    expect(close).toEqual([]);
  });
});
