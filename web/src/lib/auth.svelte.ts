// Whether the gateway asks for a (new) token. Views report what they met; the sign-in dialog answers.

import type { Failure } from './api/client';
import { token } from './api/token';

class Auth {
  asked = $state(false);
  /** What the gateway said about the token that it was shown, or about there being none. */
  why = $state('');
  /** Moves when a new token was given: views try again then. */
  version = $state(0);

  /** Opens the dialog when the failure is about access. */
  report(why: Failure | undefined): void {
    if (why?.kind !== 'signed-out') return;
    this.why = why.detail;
    this.asked = true;
  }

  give(value: string): void {
    token.set(value.trim());
    this.asked = false;
    this.version += 1;
  }
}

export const auth = new Auth();
