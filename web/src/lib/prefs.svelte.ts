// The user's preferences in this browser.

export type Theme = 'system' | 'light' | 'dark';
/** Up to this width the tree list replaces the canvas. The style sheets use the same width. */
const NARROW = '(max-width: 900px)';
const THEME_KEY = 'tree-agent.theme';

function stored(): Theme {
  const value = localStorage.getItem(THEME_KEY);
  return value === 'light' || value === 'dark' ? value : 'system';
}

class Prefs {
  theme = $state<Theme>(stored());
  /** Whether the system's theme is dark. */
  systemDark = $state(matchMedia('(prefers-color-scheme: dark)').matches);
  reducedMotion = $state(matchMedia('(prefers-reduced-motion: reduce)').matches);
  narrow = $state(matchMedia(NARROW).matches);

  constructor() {
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', (e) => (this.systemDark = e.matches));
    matchMedia('(prefers-reduced-motion: reduce)').addEventListener('change', (e) => (this.reducedMotion = e.matches));
    matchMedia(NARROW).addEventListener('change', (e) => (this.narrow = e.matches));
    this.#show();
  }

  get dark(): boolean {
    return this.theme === 'dark' || (this.theme === 'system' && this.systemDark);
  }

  choose(theme: Theme): void {
    this.theme = theme;
    if (theme === 'system') localStorage.removeItem(THEME_KEY);
    else localStorage.setItem(THEME_KEY, theme);
    this.#show();
  }

  #show(): void {
    if (this.theme === 'system') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = this.theme;
  }
}

export const prefs = new Prefs();
