// Recorded logs and the graphs of the Rust projection, as `tree-agent events -o jsonl` and
// `tree-agent graph --format json` print them.

import { readdirSync, readFileSync } from 'node:fs';
import { fromJson, type DescMessage, type JsonValue } from '@bufbuild/protobuf';
import { EventSchema, type Event } from '../src/gen/treeagent/v1/events_pb';
import { NO_USAGE, type GraphSnapshot } from '../src/lib/projection/model';

const FOLDER = new URL('../fixtures/', import.meta.url);

type Json = Record<string, JsonValue>;

/** The contract's enum values are those of the wire in lower case, without their prefix. */
function words(desc: DescMessage, value: Json): Json {
  const out: Json = {};
  for (const field of desc.fields) {
    const v = value[field.jsonName];
    if (v === undefined || v === null) continue;
    if (field.fieldKind === 'enum')
      out[field.jsonName] = `${field.enum.sharedPrefix ?? ''}${(v as string).replaceAll('-', '_')}`.toUpperCase();
    else if (field.fieldKind === 'message' && !field.message.typeName.startsWith('google.'))
      out[field.jsonName] = words(field.message, v as Json);
    else if (field.fieldKind === 'list' && field.listKind === 'message')
      out[field.jsonName] = (v as Json[]).map((one) => words(field.message, one));
    else out[field.jsonName] = v;
  }
  return out;
}

/** One line of `tree-agent events -o jsonl`. */
export function eventOf(line: string): Event {
  const { type, payload, ...head } = JSON.parse(line) as Json & { type: string; payload: Json };
  const field = EventSchema.fields.find((f) => f.name === type.replace('tree.', ''));
  if (field?.fieldKind !== 'message') throw new Error(`no field of Event is ${type}`);
  const { nodeId, parentNodeId, runId, seq, timestamp } = head;
  const json: Json = {
    runId: runId!,
    seq: String(seq),
    nodeId: nodeId!,
    timestamp: timestamp!,
    [field.jsonName]: words(field.message, payload),
  };
  if (typeof parentNodeId === 'string') json.parentNodeId = parentNodeId;
  return fromJson(EventSchema, json, { ignoreUnknownFields: true });
}

const TIMES = new Set(['createdAt', 'startedAt', 'endedAt', 'since', 'deadline']);

/** Treats null as absent, and converts times to milliseconds with microseconds as the fraction. */
function plain(value: unknown, key = ''): unknown {
  if (typeof value === 'string' && TIMES.has(key)) return Date.parse(value) + Number(value.slice(23, 26)) / 1000;
  if (Array.isArray(value)) return value.map((v) => plain(v));
  if (typeof value !== 'object' || value === null) return value;
  const given = Object.fromEntries(
    Object.entries(value)
      .filter(([, v]) => v !== null && v !== undefined)
      .map(([k, v]) => [k, plain(v, k)]),
  );
  // Counts that came later are absent in what was recorded before, as they are when they are 0.
  return 'cachedTokens' in given ? { ...NO_USAGE, ...given } : given;
}

export function graphOf(text: string): GraphSnapshot {
  const graph = plain(JSON.parse(text)) as GraphSnapshot;
  return { ...graph, nodes: graph.nodes.map((n) => ({ ...n, artifacts: n.artifacts ?? [] })) };
}

export interface Fixture {
  name: string;
  events: Event[];
  /** Expected graphs by seq. */
  graphs: GraphSnapshot[];
}

export function fixtures(): Fixture[] {
  const files = readdirSync(FOLDER);
  return files
    .filter((f) => f.endsWith('.jsonl'))
    .map((file) => {
      const name = file.replace('.jsonl', '');
      const read = (f: string): string => readFileSync(new URL(f, FOLDER), 'utf8');
      return {
        name,
        events: read(file).trim().split('\n').map(eventOf),
        graphs: files.filter((f) => f.startsWith(`${name}.`) && f.endsWith('.graph.json')).map((f) => graphOf(read(f))),
      };
    });
}
