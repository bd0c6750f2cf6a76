// What people have done to a run, in words: for the event log, the timeline and the notice of a second viewer.

import type { BudgetChange, ForkEdit } from '../../gen/treeagent/v1/edits_pb';
import type { Event } from '../../gen/treeagent/v1/events_pb';
import type { Run } from '../../gen/treeagent/v1/run_service_pb';
import { clip, cost, count, duration, number } from '../format';

const who = (author: string): string => (author === '' ? 'a user' : clip(author, 60));

const STOPPED: Record<string, string> = {
  pause: 'because of a pause',
  guidance: 'because of guidance',
  lost: 'because its driver was lost during a pause',
  unreachable: 'because its service was out of reach during a pause',
};

/** An event of a command in one line; undefined for every other event. */
export function commandWords(body: Event['body']): string | undefined {
  switch (body.case) {
    case 'nodePaused': {
      const { author, inFlight } = body.value;
      return `paused by ${who(author)}${inFlight.length > 0 ? `; ${count(inFlight.length, 'call')} in flight still ${inFlight.length === 1 ? 'ends' : 'end'}` : ''}`;
    }
    case 'nodeResumed':
      return `resumed by ${who(body.value.author)}`;
    case 'guidanceAdded':
      return `guidance by ${who(body.value.author)}${body.value.subtree ? ' for the whole subtree' : ''}: ${clip(body.value.text, 140)}`;
    case 'nodeStopped':
      return `stopped by ${who(body.value.author)}; the existing results are ${body.value.discard ? 'discarded' : 'combined'}`;
    case 'nodeReopened': {
      const { author, again, generation, model } = body.value;
      const what = again ? `to be done again by ${who(author)}` : `reopened by ${who(author)}, waits for a child`;
      return `${what} (generation ${generation})${model ? `, with ${clip(model, 60)}` : ''}`;
    }
    case 'planEdited':
      return `plan edited by ${who(body.value.author)}: ${clip(body.value.summary, 120)}`;
    case 'budgetSet':
      return `budget set by ${who(body.value.author)}: ${budgetWords(body.value.change)}`;
    case 'runForked': {
      const { author, sourceRunId, atSeq, edits } = body.value;
      const what = edits.map(editWords).filter((words) => words !== '');
      return `forked by ${who(author)} from run ${sourceRunId.slice(0, 8)} after event ${number(Number(atSeq))}${what.length > 0 ? `: ${what.join('; ')}` : ''}`;
    }
    case 'callStopped':
      return `call stopped ${STOPPED[body.value.reason] ?? `(${clip(body.value.reason, 60)})`}`;
    default:
      return undefined;
  }
}

/** That a run was forked, by whom, where and with what edits. */
export function forkedWords(fork: Run, title?: (nodeId: string) => string | undefined): string {
  const edits = forkEditWords(fork, title);
  return `forked by ${who(fork.userId)} after event ${number(Number(fork.parentSeq))}${edits === '' ? '' : `: ${edits}`}`;
}

const NODE_ID = /\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g;

/** What a fork does differently, as the list of runs says it. Nodes have their titles where they are known. */
export function forkEditWords(fork: Run, title: (nodeId: string) => string | undefined = () => undefined): string {
  const named = (words: string): string =>
    words.replaceAll(NODE_ID, (id) => {
      const known = title(id);
      return known === undefined ? id.slice(-8) : `“${clip(known, 60)}”`;
    });
  return clip(fork.forkEdits.map(named).join('; '), 300);
}

/** What a fork does differently, in a few words. */
export function editWords({ edit }: ForkEdit): string {
  switch (edit.case) {
    case 'guide':
      return `guidance: ${clip(edit.value.text, 80)}`;
    case 'retry':
      return `a node is done again${edit.value.guidance === '' ? '' : `: ${clip(edit.value.guidance, 80)}`}`;
    case 'plan':
      return 'a plan is edited';
    case 'budget':
      return `budget: ${budgetWords(edit.value.change)}`;
    case 'model':
      return `model ${clip(edit.value, 60)}`;
    default:
      return '';
  }
}

/** A change of budgets, such as `cost $2.00, no limit of tokens`. */
export function budgetWords(change: BudgetChange | undefined): string {
  if (change === undefined) return 'nothing';
  const { maxTokens, maxCostMicros, maxToolCalls, maxWallClockMs, maxNodes, maxParallelSteps } = change;
  const rows: [string, bigint | number | undefined, (n: number) => string][] = [
    ['tokens', maxTokens, number],
    ['cost', maxCostMicros, cost],
    ['tool calls', maxToolCalls, number],
    ['time', maxWallClockMs, duration],
    ['nodes', maxNodes, number],
    ['parallel steps', maxParallelSteps, number],
  ];
  const words = rows.flatMap(([name, limit, shown]) => {
    if (limit === undefined) return [];
    return [Number(limit) === 0 ? `no limit of ${name}` : `${name} ${shown(Number(limit))}`];
  });
  return words.length === 0 ? 'nothing' : words.join(', ');
}
