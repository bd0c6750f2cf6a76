// Keys that act anywhere on a page.

/** Handles a key, unless somebody types, a dialog is open, or the browser or the system has a use for it. */
export function shortcuts(acts: Record<string, () => void>): (event: KeyboardEvent) => void {
  return (event) => {
    const act = event.ctrlKey || event.metaKey || event.altKey ? undefined : acts[event.key];
    if (act === undefined || (event.target as Element).matches('input, textarea, select')) return;
    if (document.querySelector('dialog[open]')) return;
    event.preventDefault();
    act();
  };
}

export const focusOn = (selector: string): void => document.querySelector<HTMLElement>(selector)?.focus();
