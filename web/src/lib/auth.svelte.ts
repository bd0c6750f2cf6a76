// Whether the user has to sign in (again). Views report failures; the dialog sets the token.

import { failure, type Failure } from './api/failure';
import { token } from './api/token';

class Auth {
  asked = $state(false);
  /** Why the gateway refused the last call. */
  why = $state('');
  /** Incremented when a new token was given. Views try again then. */
  version = $state(0);

  /** Opens the dialog when the failure is about access. */
  report(why: Failure | undefined): void {
    if (why?.kind !== 'signed-out') return;
    this.why = why.detail;
    this.asked = true;
  }

  /** What went wrong with a call. */
  caught(error: unknown): Failure {
    const why = failure(error);
    this.report(why);
    return why;
  }

  give(value: string): void {
    token.set(value.trim());
    this.asked = false;
    this.version += 1;
  }
}

export const auth = new Auth();
