// What a node does, in a few words.

import { clip } from './format';
import { reasonWords } from './reasons';
import { ACTIVE_STATUSES, expansionOf, FINAL, type GraphNode } from './projection/model';
import type { Projection } from './projection/projection';

/** The outcome of a tool is shown for so long. */
const OUTCOME_MS = 3000;

/** `TOOL: read_document [RUNNING] tides.md` in its three parts, or a phrase as the first. */
export interface Activity {
  what: string;
  /** The state of a tool, in brackets. */
  state?: string;
  /** What its call is about, such as the name of a document. */
  about?: string;
}

/** How it is written in one line. */
export const activityText = ({ what, state, about }: Activity): string =>
  [what, state, about].filter((part) => part !== undefined).join(' ');

/**
 * What a node does at a moment, in milliseconds since 1970. `subject` says what a call of a tool is about. The phrase
 * is empty if the status says everything.
 */
export function activityOf(
  node: GraphNode,
  graph: Projection,
  at: number,
  moment: number,
  subject?: (callId: string) => string | undefined,
): Activity {
  const { lastTool: tool, since } = node;
  const isNew = tool?.ok === undefined || moment - (since?.tool ?? -Infinity) < OUTCOME_MS;
  if (tool === undefined || !isNew || !ACTIVE_STATUSES.has(node.status))
    return { what: phraseOf(node, graph, at, moment) };
  const state = tool.ok === undefined ? '[RUNNING]' : tool.ok ? '[OK]' : '[FAILED]';
  const about = subject?.(tool.callId);
  return { what: `TOOL: ${tool.toolName}`, state, ...(about !== undefined && { about: clip(about, 80) }) };
}

/** The steps of a plan for which there are no nodes yet. */
const toCome = ({ plan }: GraphNode): number =>
  plan?.bands.flatMap((band) => band.steps).filter((s) => s.status === 'pending' && s.nodeId === undefined).length ?? 0;

/** A phrase without a full stop. */
function phraseOf(node: GraphNode, graph: Projection, at: number, moment: number): string {
  const children = graph.childrenOf(at);
  const ended = children.filter((child) => FINAL.has(graph.nodes[child]!.status)).length;
  const failed = children.filter((child) => graph.nodes[child]!.status === 'failed').length;
  const waited = node.since?.status === undefined ? undefined : moment - node.since.status;
  const message = node.message === undefined ? '' : reasonWords(node.message, waited);
  switch (node.status) {
    case 'waiting': {
      const later = toCome(node);
      if (children.length > ended)
        return `waiting for ${children.length - ended} of ${children.length}${later > 0 ? `, then ${later} more` : ''}`;
      return message || (expansionOf(node, false) === 'unexpanded' ? 'not researched yet' : 'has not begun');
    }
    case 'planning':
      return message || 'making a plan';
    case 'delegating':
      return message || 'handing out the steps';
    case 'executing':
      return message || 'working';
    case 'aggregating':
      return message || `putting ${children.length} ${children.length === 1 ? 'result' : 'results'} together`;
    case 'completed': {
      if (children.length > 0)
        return `${ended - failed} of ${children.length} done${failed > 0 ? `, ${failed} failed` : ''}`;
      const why = node.decisions?.findLast((one) => !/^(retry|blocked|pick):/.test(one));
      return why === undefined ? clip(node.result?.summary ?? '', 120) : reasonWords(why);
    }
    case 'blocked':
      // The address is in the panel.
      return clip(message.replace(/ at https?:\/\/\S+/, ''), 240);
    default:
      return clip(node.error === undefined ? message : reasonWords(node.error), 240);
  }
}

/**
 * How long a node has worked at a moment, or has been blocked, in milliseconds; undefined before it begins. What was
 * before the run, as in a fork, does not count for a node that is open.
 */
export function tookOf(node: GraphNode, moment: number, begin = 0): number | undefined {
  if (node.status === 'blocked' && node.since?.status !== undefined) return Math.max(0, moment - node.since.status);
  if (node.startedAt === undefined) return undefined;
  const isOld = node.endedAt !== undefined && node.endedAt < begin;
  return Math.max(0, (node.endedAt ?? moment) - (isOld ? node.startedAt : Math.max(begin, node.startedAt)));
}
