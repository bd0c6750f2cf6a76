// Commands that are done without a dialog, because they can be undone.

import { failure } from '../api/failure';
import { clip } from '../format';
import { randomUuid } from '../request-id';
import { told } from '../told.svelte';
import type { Action } from './actions';
import { send } from './send';

/** What a command is about; both are empty for the whole run. */
interface Target {
  nodeId: string;
  title: string;
}

export async function doAtOnce(runId: string, kind: 'pause' | 'resume' | 'stop', of: Target): Promise<void> {
  const { nodeId } = of;
  const name = of.title === '' ? 'The run' : `“${clip(of.title, 60)}”`;
  const act = async (action: Action): Promise<boolean> => {
    try {
      await send(runId, action, { validateOnly: false, requestId: randomUuid() });
      return true;
    } catch (error) {
      const why = failure(error);
      told.say(`${name} was not changed: ${why.detail || why.title}`);
      return false;
    }
  };
  const pause: Action = { kind: 'pause', nodeId, now: false };
  const resume: Action = { kind: 'resume', nodeId };
  if (kind === 'resume') {
    if (await act(resume)) told.say(`${name} goes on.`, { undo: () => void act(pause) });
    return;
  }
  // Nothing brings back what was stopped. So a branch is paused first, and stopped when that cannot be undone any more.
  if (!(await act(pause))) return;
  const settle = kind === 'stop' ? { settle: () => void act({ kind: 'stop', nodeId, discard: false }) } : {};
  const words = kind === 'stop' ? 'stops, and keeps its results.' : 'is paused.';
  told.say(`${name} ${words}`, { undo: () => void act(resume), ...settle });
}
