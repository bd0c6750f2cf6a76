// What a dialog or a form asks of the server once somebody presses its button.

import { failureWords, type Failure } from './api/failure';
import { auth } from './auth.svelte';

export class Attempt {
  busy = $state(false);
  /** Why the last one failed. */
  why = $state.raw<Failure | undefined>();

  get problem(): string {
    return this.why === undefined ? '' : failureWords(this.why);
  }

  async make(work: () => Promise<unknown>): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    this.why = undefined;
    try {
      await work();
    } catch (error) {
      this.why = auth.caught(error);
    } finally {
      this.busy = false;
    }
  }
}
