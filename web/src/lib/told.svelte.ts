// One short message about what has just been done, with a way to undo it. It goes away by itself.

const SHOWN_MS = 3_000;
const UNDO_SHOWN_MS = 8_000;

/** What can still be undone. */
export interface Undoable {
  undo: () => void;
  /** Called once it can no longer be undone. */
  settle?: () => void;
}

class Told {
  text = $state('');
  undoable = $state.raw<Undoable | undefined>();
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    globalThis.addEventListener?.('pagehide', () => this.#settle());
  }

  say(text: string, undoable?: Undoable): void {
    this.#settle();
    this.text = text;
    this.undoable = undoable;
    this.#timer = setTimeout(() => this.#settle(), undoable === undefined ? SHOWN_MS : UNDO_SHOWN_MS);
  }

  undo(): void {
    const undo = this.undoable?.undo;
    this.undoable = undefined;
    this.#settle();
    undo?.();
  }

  #settle(): void {
    clearTimeout(this.#timer);
    const settle = this.undoable?.settle;
    this.text = '';
    this.undoable = undefined;
    settle?.();
  }
}

export const told = new Told();
