// Who the user is to the server. Servers of version 0.2 do not say, and then everything is offered.

import type { Caller } from '../gen/treeagent/v1/server_service_pb';
import { serverInfo } from './server-info';

class Me {
  caller = $state.raw<Caller | undefined>();

  async look(): Promise<void> {
    this.caller = (await serverInfo())?.caller;
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
