// Ways to give commands in a page: with the mouse, and with nothing but the keyboard.

import type { Locator, Page } from 'playwright-core';
import { treeItem } from './page';

/** A hand that works a page. */
export interface Hand {
  /** Chooses a node in the tree. */
  choose(page: Page, title: RegExp): Promise<void>;
  /** Presses the button that a CSS selector names. */
  press(page: Page, selector: string): Promise<void>;
  /** Ticks a box, or chooses a radio button. */
  tick(box: Locator): Promise<void>;
  /** Gives a field the focus. */
  reach(field: Locator): Promise<void>;
  /** Moves a step of the plan in the dialog before another one. */
  moveUp(page: Page, step: string, before: string): Promise<void>;
}

const selected = (page: Page, title: RegExp): Locator =>
  page.locator('[role=treeitem][aria-selected=true]').and(treeItem(page, title));
const grip = (page: Page, step: string): Locator =>
  page.getByRole('dialog').getByRole('button', { name: `Move ${step}`, exact: true });

export const MOUSE: Hand = {
  async choose(page, title) {
    await treeItem(page, title).click();
    await selected(page, title).waitFor();
  },
  press: (page, selector) => page.locator(selector).click(),
  tick: (box) => box.click(),
  reach: (field) => field.click(),
  async moveUp(page, step, before) {
    await grip(page, step).dragTo(
      page
        .getByRole('dialog')
        .locator('li', { has: page.getByRole('button', { name: `Move ${before}`, exact: true }) }),
      { targetPosition: { x: 60, y: 4 } },
    );
  },
};

/** Presses a key until the focused element matches. */
export async function until(page: Page, key: string, fits: string): Promise<void> {
  await press(
    page,
    key,
    () => page.evaluate((selector) => document.activeElement?.matches(selector) === true, fits),
    fits,
  );
}

const isFocused = (box: Locator): Promise<boolean> => box.evaluate((el) => el === document.activeElement);

async function press(
  page: Page,
  key: string,
  isThere: () => Promise<boolean>,
  where = 'where it should',
): Promise<void> {
  for (let i = 0; i < 120; i++) {
    if (await isThere()) return;
    await page.keyboard.press(key);
  }
  throw new Error(`${key} does not lead to ${where}`);
}

export const KEYBOARD: Hand = {
  async choose(page, title) {
    await page.keyboard.press('t');
    await page.locator('[role=treeitem]:focus').waitFor();
    // The focus follows a key in the next frame. A key that does not wait for it leads past the row.
    await page.keyboard.press('Home');
    await page.locator('[role=treeitem][aria-level="1"]:focus').waitFor();
    for (
      let i = 0;
      i < 20 && (await page.locator('[role=treeitem]:focus').and(treeItem(page, title)).count()) === 0;
      i++
    ) {
      const before = await page.evaluate(() => document.activeElement?.getAttribute('data-node-id'));
      await page.keyboard.press('ArrowDown');
      await page.waitForFunction((was) => document.activeElement?.getAttribute('data-node-id') !== was, before);
    }
    await page.keyboard.press('Enter');
    await selected(page, title).waitFor();
  },
  async press(page, selector) {
    await page.locator(selector).and(page.locator(':not(:disabled)')).waitFor();
    await until(page, 'Tab', selector);
    await page.keyboard.press('Enter');
  },
  async tick(box) {
    const page = box.page();
    // Tab leads to the chosen button of a group, and the arrows to the others.
    const group = await box.evaluate((el) => (el instanceof HTMLInputElement && el.type === 'radio' ? el.name : ''));
    if (group === '') await press(page, 'Tab', () => isFocused(box));
    else await until(page, 'Tab', `input[type=radio][name="${group}"]`);
    if (group === '') await page.keyboard.press('Space');
    else await press(page, 'ArrowDown', () => isFocused(box));
    if (!(await box.isChecked())) throw new Error('the keyboard does not tick it');
  },
  async reach(field) {
    await field.waitFor();
    await press(field.page(), 'Tab', () => isFocused(field));
  },
  async moveUp(page, step) {
    await grip(page, step).waitFor();
    await until(page, 'Tab', `[aria-label="Move ${step}"]`);
    await page.keyboard.press('ArrowUp');
  },
};

/** Confirms the open dialog once its preview is there, and returns the preview. */
export async function confirm(page: Page, hand: Hand): Promise<string> {
  const dialog = page.getByRole('dialog');
  const preview = dialog.locator('[data-testid=preview][data-phase=ready]');
  await preview.waitFor();
  const text = await preview.innerText();
  await hand.press(page, 'dialog [data-testid=confirm]');
  await dialog.waitFor({ state: 'detached' });
  return text;
}
