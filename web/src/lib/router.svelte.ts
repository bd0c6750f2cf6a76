// The page's address. Everything that a link should carry is in the URL; what belongs to this tab alone (viewport,
// folds) is in the session storage.

const AFTER_TYPING_MS = 200;
const NOTHING: Record<string, string> = {};

class Router {
  path = $state(location.pathname);
  params = $state.raw(new URLSearchParams(location.search));
  /** Parameters that somebody types at the moment. */
  #typed = $state.raw(NOTHING);
  #typing: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    addEventListener('popstate', () => this.#read());
  }

  #read(): void {
    this.#forgetTyped();
    this.path = location.pathname;
    this.params = new URLSearchParams(location.search);
  }

  /** The run of `/runs/<id>`; undefined on every other page. */
  get runId(): string | undefined {
    return /^\/runs\/([^/]+)\/?$/.exec(this.path)?.[1];
  }

  /** True on the page with the question and the list of runs. */
  get isHome(): boolean {
    return /^\/(runs\/?)?$/.test(this.path);
  }

  /** True on the page of all projects. */
  get isProjects(): boolean {
    return /^\/projects\/?$/.test(this.path);
  }

  /** True on the page that compares two runs. */
  get isCompare(): boolean {
    return /^\/compare\/?$/.test(this.path);
  }

  /** The project of `/projects/<id>`; undefined on every other page. */
  get projectId(): string | undefined {
    return /^\/projects\/([^/]+)\/?$/.exec(this.path)?.[1];
  }

  get(name: string): string {
    return this.params.get(name) ?? '';
  }

  /** The value of a parameter, or what somebody types in its place. */
  typed(name: string): string {
    return this.#typed[name] ?? this.get(name);
  }

  /** Navigates, with a new entry in the browser's history. */
  go(to: string): void {
    history.pushState(null, '', to);
    this.#read();
    scrollTo(0, 0);
  }

  /** Changes parameters of the current entry; an empty value removes one. */
  set(changes: Record<string, string | undefined>): void {
    const params = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries({ ...this.#typed, ...changes })) {
      if (value === undefined || value === '') params.delete(name);
      else params.set(name, value);
    }
    this.#forgetTyped();
    const query = params.toString();
    const to = location.pathname + (query === '' ? '' : `?${query}`);
    if (to === location.pathname + location.search) return;
    history.replaceState(history.state, '', to);
    this.#read();
  }

  #forgetTyped(): void {
    clearTimeout(this.#typing);
    this.#typed = NOTHING;
  }

  /** Changes a parameter once the typing rests. */
  type(name: string, value: string): void {
    this.#typed = { ...this.#typed, [name]: value };
    clearTimeout(this.#typing);
    this.#typing = setTimeout(() => this.set({}), AFTER_TYPING_MS);
  }
}

export const router = new Router();

/** Takes a click on a link from the browser. Those that open a new tab are left to it. */
export function takes(event: MouseEvent): boolean {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return false;
  event.preventDefault();
  return true;
}

/** Makes a link navigate without a reload. Clicks that open a new tab are left to the browser. */
export function link(element: HTMLAnchorElement): { destroy(): void } {
  const click = (event: MouseEvent): void => {
    if (takes(event)) router.go(element.pathname + element.search);
  };
  element.addEventListener('click', click);
  return { destroy: () => element.removeEventListener('click', click) };
}
