// The same thing in the forms in which it is asked for elsewhere.

import { toJson } from '@bufbuild/protobuf';
import { DocumentSchema, type Document } from '../gen/treeagent/v1/document_service_pb';
import type { Event } from '../gen/treeagent/v1/events_pb';
import { token } from './api/token';
import { eventJson } from './events';
import type { GraphNode } from './projection/model';

/** One form of a thing. A text that takes work to make, or that goes on changing, is made when one copies it. */
export interface Form {
  label: string;
  text: string | (() => string);
}

/** A word for a POSIX shell. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

export function nodeUrl(runId: string, nodeId: string, seq: number | undefined): string {
  const params = new URLSearchParams({ node: nodeId });
  if (seq !== undefined) params.set('seq', String(seq));
  return `${location.origin}/runs/${runId}?${params.toString()}`;
}

export function grpcurl(method: string, request: unknown): string {
  const plain = location.protocol === 'http:' ? '-plaintext ' : '';
  const port = location.port === '' ? (plain === '' ? '443' : '80') : location.port;
  // Where a token is needed the line names a variable for it: what is copied is passed on, and a token must not be.
  const access = token.get() === '' ? '' : '-H "authorization: Bearer $TOKEN" ';
  return `grpcurl ${plain}${access}-d ${shellWord(JSON.stringify(request))} ${location.hostname}:${port} treeagent.v1.${method}`;
}

/** A run as it is, or as it was after an event. */
export function runForms(runId: string, seq: number | undefined, json: () => string): Form[] {
  const url = `${location.origin}/runs/${runId}`;
  const server = `--server ${location.origin}`;
  return [
    { label: 'JSON', text: json },
    { label: 'URL', text: seq === undefined ? url : `${url}?seq=${seq}` },
    { label: 'grpcurl', text: grpcurl('RunService/GetGraph', { runId, ...(seq === undefined ? {} : { atSeq: seq }) }) },
    { label: 'CLI', text: seq === undefined ? `tree-agent watch ${runId} ${server}` : `tree-agent graph ${runId} --at ${seq} ${server}` },
  ];
}

export function nodeForms(runId: string, node: GraphNode, seq: number | undefined): Form[] {
  const server = `--server ${location.origin}`;
  return [
    { label: 'JSON', text: JSON.stringify(node, null, 2) },
    { label: 'URL', text: nodeUrl(runId, node.id, seq) },
    { label: 'grpcurl', text: grpcurl('RunService/ListEvents', { runId, nodeId: node.id }) },
    { label: 'CLI', text: `tree-agent events ${runId} --node ${node.id} ${server}` },
  ];
}

/** One event: the log after the one before it, cut after one. */
export function eventForms(runId: string, event: Event): Form[] {
  const before = Number(event.seq) - 1;
  const params = new URLSearchParams({ node: event.nodeId, seq: String(event.seq), side: 'events' });
  return [
    { label: 'JSON', text: eventJson(event) },
    { label: 'URL', text: `${location.origin}/runs/${runId}?${params.toString()}` },
    { label: 'grpcurl', text: grpcurl('RunService/ListEvents', { runId, afterSeq: before, pageSize: 1 }) },
    { label: 'CLI', text: `tree-agent events ${runId} --after-seq ${before} --server ${location.origin} -o jsonl | head -n 1` },
  ];
}

/** A document, which is a node's scratchpad or artifact. */
export function documentForms(runId: string, nodeId: string, tab: string, documentId: string, document: Document | undefined): Form[] {
  return [
    ...(document?.summary?.documentId !== documentId ? [] : [{ label: 'JSON', text: JSON.stringify(toJson(DocumentSchema, document), null, 2) }]),
    { label: 'URL', text: `${nodeUrl(runId, nodeId, undefined)}&tab=${tab}` },
    { label: 'grpcurl', text: grpcurl('DocumentService/GetDocument', { documentId }) },
    { label: 'CLI', text: `tree-agent doc ${documentId} --server ${location.origin}` },
  ];
}

export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Pages that are not secure have no clipboard; a selection still copies.
    const area = document.createElement('textarea');
    area.value = text;
    area.className = 'sr';
    document.body.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    return done;
  }
}
