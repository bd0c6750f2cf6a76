// The calls that carry actions out.

import type { CommandOutcome } from '../../gen/treeagent/v1/steering_pb';
import { runs } from '../api/client';
import type { Action, Outcome, Sent } from './actions';

const of = (outcome: CommandOutcome | undefined, forkRunId?: string): Outcome => ({
  seq: Number(outcome?.seq ?? 0n),
  preview: outcome?.preview,
  forkRunId: forkRunId || undefined,
  changedDocuments: { count: 0, ids: [] },
});

/** Sends an action. With `validateOnly` nothing changes, and the outcome has a preview. */
export async function send(runId: string, action: Action, sent: Sent, signal?: AbortSignal): Promise<Outcome> {
  const { kind, ...content } = action;
  const request = { runId, ...content, ...sent };
  switch (kind) {
    case 'pause':
      return of((await runs.pauseRun(request, { signal })).outcome);
    case 'resume':
      return of((await runs.resumeRun(request, { signal })).outcome);
    case 'guide':
      return of((await runs.guideNode(request, { signal })).outcome);
    case 'stop':
      return of((await runs.stopNode(request, { signal })).outcome);
    case 'plan':
      return of((await runs.editPlan(request, { signal })).outcome);
    case 'budget':
      return of((await runs.setBudget(request, { signal })).outcome);
    case 'retry': {
      const { outcome, forkRunId } = await runs.retryNode(request, { signal });
      return of(outcome, forkRunId);
    }
    case 'fork': {
      const { expectedSeq: _, ...fork } = request;
      const { preview, forkRunId, changedDocumentIds, changedDocumentCount } = await runs.forkRun(fork, { signal });
      return {
        ...of(undefined, forkRunId),
        preview,
        changedDocuments: { count: changedDocumentCount, ids: changedDocumentIds },
      };
    }
  }
}
