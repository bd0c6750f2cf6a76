// One short message about what has just been done, with a way to undo it. It goes away by itself.

const SHOWN_MS = 3_000;
const UNDO_SHOWN_MS = 10_000;

class Told {
  text = $state('');
  undo = $state.raw<(() => void) | undefined>();
  #timer: ReturnType<typeof setTimeout> | undefined;

  say(text: string, undo?: () => void): void {
    this.text = text;
    this.undo = undo;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.close(), undo === undefined ? SHOWN_MS : UNDO_SHOWN_MS);
  }

  close(): void {
    this.text = '';
    this.undo = undefined;
  }
}

export const told = new Told();
