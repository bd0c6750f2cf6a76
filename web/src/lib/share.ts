// A run, node, event or document in the forms that other tools take: JSON, a URL, commands.

import { toJson } from '@bufbuild/protobuf';
import { DocumentSchema, type Document, type DocumentSummary } from '../gen/treeagent/v1/document_service_pb';
import type { Event } from '../gen/treeagent/v1/events_pb';
import { address } from './address';
import { token } from './api/token';
import { eventJson } from './events';
import { projectUrl } from './project-list';
import type { GraphNode } from './projection/model';

/** One form. A function makes the text when it is copied: it takes work to make, or it goes on changing. */
export interface Form {
  label: string;
  text: string | (() => string);
}

/** A word for a POSIX shell. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

type Params = Parameters<typeof address>[1];
const runUrl = (runId: string, params: Params): string => location.origin + address(`/runs/${runId}`, params);

/** Reads the token where the command runs: what is copied is passed on, and a token must not be. */
const TOKEN_FILE = '"$TREE_AGENT_TOKEN_FILE"';

/** Whether copied commands need a token. They read it from the file that TREE_AGENT_TOKEN_FILE names. */
export const needsTokenFile = (): boolean => token.get() !== '';

export function grpcurl(method: string, request: unknown): string {
  const plain = location.protocol === 'http:' ? '-plaintext ' : '';
  const port = location.port === '' ? (plain === '' ? '443' : '80') : location.port;
  const access = needsTokenFile() ? `-H "authorization: Bearer $(cat ${TOKEN_FILE})" ` : '';
  return `grpcurl ${plain}${access}-d ${shellWord(JSON.stringify(request))} ${shellWord(`${location.hostname}:${port}`)} treeagent.v1.${method}`;
}

/** A command line against the gateway that the page came from. */
export function commandLine(...args: string[]): string {
  const words = ['tree-agent', ...args, '--server', location.origin].map(shellWord);
  if (needsTokenFile()) {
    words.push('--token-file', TOKEN_FILE);
    // The command line refuses this unless it is told to. The browser has sent the token over the same connection
    // already.
    if (location.protocol === 'http:' && !isLoopback(location.hostname)) words.push('--allow-plaintext-token');
  }
  return words.join(' ');
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '[::1]' || /^127(?:\.\d{1,3}){3}$/.test(host);
}

/** A run as it is, or as it was after an event. */
export function runForms(runId: string, seq: number | undefined, json: () => string): Form[] {
  return [
    { label: 'JSON', text: json },
    { label: 'URL', text: runUrl(runId, { seq }) },
    { label: 'grpcurl', text: grpcurl('RunService/GetGraph', { runId, atSeq: seq }) },
    {
      label: 'CLI',
      text: seq === undefined ? commandLine('watch', runId) : commandLine('graph', runId, '--at', String(seq)),
    },
  ];
}

export function nodeForms(runId: string, node: GraphNode, seq: number | undefined): Form[] {
  return [
    { label: 'JSON', text: JSON.stringify(node, null, 2) },
    { label: 'URL', text: runUrl(runId, { node: node.id, seq }) },
    { label: 'grpcurl', text: grpcurl('RunService/ListEvents', { runId, nodeId: node.id }) },
    { label: 'CLI', text: commandLine('events', runId, '--node', node.id) },
  ];
}

/** One event: the first of those after the event before it. */
export function eventForms(runId: string, event: Event): Form[] {
  const before = Number(event.seq) - 1;
  return [
    { label: 'JSON', text: eventJson(event) },
    { label: 'URL', text: runUrl(runId, { node: event.nodeId, seq: event.seq, view: 'time' }) },
    { label: 'grpcurl', text: grpcurl('RunService/ListEvents', { runId, afterSeq: before, pageSize: 1 }) },
    { label: 'CLI', text: `${commandLine('events', runId, '--after-seq', String(before), '-o', 'jsonl')} | head -n 1` },
  ];
}

/** A document, which is a node's scratchpad or artifact, as it is or as it was after an event. */
export function documentForms(
  runId: string,
  nodeId: string,
  tab: string,
  documentId: string,
  document: Document | undefined,
  seq?: number,
): Form[] {
  return anyDocumentForms(runUrl(runId, { node: nodeId, seq, tab }), documentId, document, seq);
}

/** A document of a run in the tree of its documents. */
export function treeDocumentForms(
  runId: string,
  documentId: string,
  document: Document | undefined,
  seq: number | undefined,
): Form[] {
  const url = runUrl(runId, { document: documentId, view: 'documents', seq });
  return anyDocumentForms(url, documentId, document, seq);
}

/** A document of a project. */
export function sourceForms(
  projectId: string,
  { documentId, path }: DocumentSummary,
  document: Document | undefined,
): Form[] {
  return anyDocumentForms(location.origin + projectUrl(projectId, path), documentId, document, undefined);
}

/** The document itself is among them once it is there. The command line reads documents as they are now. */
function anyDocumentForms(
  url: string,
  documentId: string,
  document: Document | undefined,
  atSeq: number | undefined,
): Form[] {
  const forms = [
    { label: 'URL', text: url },
    { label: 'grpcurl', text: grpcurl('DocumentService/GetDocument', { documentId, atSeq }) },
  ];
  if (document?.summary?.documentId === documentId)
    forms.unshift({ label: 'JSON', text: JSON.stringify(toJson(DocumentSchema, document), null, 2) });
  if (atSeq === undefined) forms.push({ label: 'CLI', text: commandLine('doc', documentId) });
  return forms;
}

export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Pages that are neither HTTPS nor localhost have no clipboard API, but a selection can be copied.
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
