// What a node does, in a few words.

import { clip } from './format';
import { reasonWords } from './reasons';
import { expansionOf, FINAL, type GraphNode } from './projection/model';
import type { Projection } from './projection/projection';

const READS = /^(read|open|get|fetch|load)_/;
const SEARCHES = /^(search|find|query|grep)_/;
const LISTS = /^list_/;
const WRITES = /^(write|create|update|append|edit)_/;

/** What a call of a tool does. `subject` is what it is about, such as the name of a document. */
export function callWords(toolName: string, subject: string | undefined): string {
  const about = subject === undefined ? '' : ` ${clip(subject, 80)}`;
  if (READS.test(toolName)) return `reading${about || ' a document'}`;
  if (SEARCHES.test(toolName)) return `searching${subject === undefined ? '' : ` for “${clip(subject, 80)}”`}`;
  if (LISTS.test(toolName)) return `listing ${toolName.slice(5).replaceAll('_', ' ')}`;
  if (WRITES.test(toolName)) return `writing${about || ' a document'}`;
  return `using ${toolName.replaceAll('_', ' ')}${subject === undefined ? '' : `:${about}`}`;
}

/** A phrase without a full stop; empty if the status says everything. */
export function phraseOf(node: GraphNode, graph: Projection, at: number, subject?: string): string {
  const children = graph.childrenOf(at);
  const ended = children.filter((child) => FINAL.has(graph.nodes[child]!.status)).length;
  const message = node.message === undefined ? '' : reasonWords(node.message);
  switch (node.status) {
    case 'waiting':
      if (children.length > ended) return `waiting for ${children.length - ended} of ${children.length}`;
      return message || (expansionOf(node, false) === 'unexpanded' ? 'not researched yet' : 'has not begun');
    case 'planning':
      return message || 'making a plan';
    case 'delegating':
      return message || 'handing out the steps';
    case 'executing': {
      const tool = node.lastTool;
      if (tool !== undefined && tool.ok === undefined) return callWords(tool.toolName, subject);
      return message || 'working';
    }
    case 'aggregating':
      return message || `putting ${children.length} ${children.length === 1 ? 'result' : 'results'} together`;
    case 'completed': {
      if (children.length > 0) return `${ended} of ${children.length} done`;
      const why = node.decisions?.at(-1);
      return why === undefined ? clip(node.result?.summary ?? '', 120) : reasonWords(why);
    }
    default:
      return clip(node.error ?? message, 120);
  }
}
