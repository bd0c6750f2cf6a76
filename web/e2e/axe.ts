// What axe-core finds on a page.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Page } from 'playwright-core';
import { drawn } from './page';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

interface Finding {
  id: string;
  nodes: { html: string; failureSummary: string }[];
}
interface Axe {
  run(context: Node, options: object): Promise<{ violations: Finding[]; incomplete: Finding[] }>;
}

/** What violates WCAG 2.1 A and AA on the current page, by axe-core's rules. */
export async function violations(page: Page, where: string): Promise<string[]> {
  await drawn(page);
  if (!(await page.evaluate(() => 'axe' in globalThis))) await page.evaluate(AXE);
  const found = await page.evaluate(async () => {
    const { axe } = globalThis as unknown as { axe: Axe };
    const all = (await axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'] })).violations;
    // The cards are hidden from assistive technology, so only their contrast counts. What axe-core cannot decide is a
    // failure.
    const cards = document.querySelector('.cards');
    if (cards === null || cards.childElementCount === 0) return all;
    cards.removeAttribute('aria-hidden');
    const pale = await axe.run(cards, { runOnly: ['color-contrast'] });
    cards.setAttribute('aria-hidden', 'true');
    return [...all, ...pale.violations, ...pale.incomplete];
  });
  return found.flatMap((v) =>
    v.nodes.map(
      (n) => `${where}: ${v.id}: ${n.html.slice(0, 160)}: ${n.failureSummary.split('\n')[1]?.trim().slice(0, 160)}`,
    ),
  );
}
