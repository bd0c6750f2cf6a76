// Who the user is to the server. Servers of version 0.2 do not say, and then everything is offered.

import type { Caller } from '../gen/treeagent/v1/server_service_pb';
import { server } from './api/client';
import { auth } from './auth.svelte';

class Me {
  caller = $state.raw<Caller | undefined>();
  #asked = -1;

  /** Asks again once another token was given. */
  look(): void {
    if (this.#asked === auth.version) return;
    const asked = (this.#asked = auth.version);
    server.getServerInfo({}).then(
      ({ caller }) => asked === this.#asked && (this.caller = caller),
      () => (this.#asked = -1),
    );
  }

  /** Whether a run of this user may be steered. */
  owns(userId: string | undefined): boolean {
    return this.caller === undefined || this.caller.administrator || this.caller.userId === userId;
  }

  /** Whether there are other users. */
  get hasOthers(): boolean {
    return this.caller !== undefined && this.caller.userId !== '';
  }
}

export const me = new Me();
