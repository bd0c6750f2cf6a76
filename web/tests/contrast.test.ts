import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

const css = readFileSync(new URL('../src/app.css', import.meta.url), 'utf8');
const tokens = new Map([...css.matchAll(/--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)/g)].map((m) => [m[1]!, [m[2]!, m[3]!]]));

function luminance(color: string): number {
  const [r, g, b] = [1, 3, 5].map((at) => {
    const c = Number.parseInt(color.slice(at, at + 2), 16) / 255;
    return c <= 0.040_45 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  });
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
  ['accent', ['surface', 'accent-soft', 'bg']],
  ...TONES.map((t): [string, string[]] => [`${t}-text`, [`${t}-bg`, 'surface', 'hover', 'accent-soft']]),
];

describe.each(['light', 'dark'])('in %s', (theme) => {
  const color = (name: string): string => {
    const pair = tokens.get(name);
    if (pair === undefined) throw new Error(`there is no token ${name}`);
    return pair[theme === 'light' ? 0 : 1]!;
  };

  it('every text has the contrast of WCAG AA', () => {
    const low = TEXT.flatMap(([text, grounds]) =>
      grounds.map((ground) => [text, ground, contrast(color(text), color(ground))] as const).filter(([, , ratio]) => ratio < 4.5),
    );
    expect(low).toEqual([]);
    expect(contrast('#ffffff', color('accent-bg'))).toBeGreaterThanOrEqual(4.5);
  });

  it('every mark stands out from what it lies on', () => {
    const low = [...TONES, 'focus'].flatMap((t) =>
      ['surface', 'canvas'].map((ground) => [t, ground, contrast(color(t), color(ground))] as const).filter(([, , ratio]) => ratio < 3),
    );
    expect(low).toEqual([]);
  });
});
