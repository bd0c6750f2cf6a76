// How a guided search works, as the form asks for it. The limits are those of the API.

import type { JsonObject } from '@bufbuild/protobuf';
import { PickerPolicy, type SearchConfig } from '../gen/treeagent/v1/common_pb';
import type { Limits } from '../gen/treeagent/v1/server_service_pb';
import { tooLong } from './new-run';

const TOPIC_NAMES = 'title, slug, path, parents, depth, status, objective, siblings, schema, max_children';

/** The texts of one prompt and of the schema, by the names of their fields in errors of the API. */
export const TEXT_FIELDS = [
  { key: 'root', field: 'search.prompts.root', label: 'First level prompt', names: TOPIC_NAMES },
  { key: 'document', field: 'search.prompts.document', label: 'Document prompt', names: TOPIC_NAMES },
  { key: 'children', field: 'search.prompts.children', label: 'Topics prompt', names: TOPIC_NAMES },
  {
    key: 'pickerPrompt',
    field: 'search.prompts.picker',
    label: 'Picker prompt',
    names: 'objective, outline, leaves, note',
  },
] as const;

/** The API's name of the schema. */
export const SCHEMA_FIELD = 'search.frontmatter_schema';

export const PICKERS = [
  { value: PickerPolicy.LLM, label: 'Model', hint: 'A model that sees the whole tree' },
  { value: PickerPolicy.BREADTH_FIRST, label: 'Breadth first', hint: 'The topics in their order, level by level' },
  { value: PickerPolicy.BEST_FIRST, label: 'Best score first', hint: 'The topic that promises the most' },
];

export const defaultOptions = () => ({
  concurrency: '',
  maxDepth: '',
  picker: PickerPolicy.LLM as PickerPolicy,
  synthesis: true,
  root: '',
  document: '',
  children: '',
  pickerPrompt: '',
  schema: '',
});

export type SearchOptions = ReturnType<typeof defaultOptions>;

const PROMPT_BYTES = 65_536;

/** What is wrong with a number that may be left out; empty when nothing is. */
export function checkCount(text: string, most: number): string {
  if (text.trim() === '') return '';
  const value = Number(text);
  return Number.isInteger(value) && value >= 1 && value <= most
    ? ''
    : `Give a whole number from 1 to ${most}, or leave it empty.`;
}

/** What is wrong with a schema; empty when nothing is. Whether it is a JSON Schema is for the server to say. */
export function checkSchema(text: string, most = PROMPT_BYTES): string {
  if (text.trim() === '') return '';
  const long = tooLong(text, most);
  if (long !== '') return long;
  try {
    const schema: unknown = JSON.parse(text);
    return typeof schema === 'object' && schema !== null && !Array.isArray(schema) ? '' : 'A JSON Schema is an object.';
  } catch (error) {
    return `This is not JSON: ${error instanceof Error ? error.message : String(error)}`;
  }
}

/** The options of the request. What was left empty takes the server's default. */
export function toSearch(options: SearchOptions) {
  const n = (text: string): number | undefined => (text.trim() === '' ? undefined : Number(text));
  const text = (value: string): string | undefined => (value.trim() === '' ? undefined : value);
  return {
    concurrency: n(options.concurrency),
    maxDepth: n(options.maxDepth),
    picker: options.picker,
    synthesis: options.synthesis,
    prompts: {
      root: text(options.root),
      document: text(options.document),
      children: text(options.children),
      picker: text(options.pickerPrompt),
    },
    frontmatterSchema: options.schema.trim() === '' ? undefined : (JSON.parse(options.schema) as JsonObject),
  };
}

/** The options that lead to a configuration. */
export function fromSearch(search: SearchConfig | undefined): SearchOptions {
  if (search === undefined) return defaultOptions();
  const { prompts } = search;
  return {
    concurrency: search.concurrency === undefined ? '' : String(search.concurrency),
    maxDepth: search.maxDepth === undefined ? '' : String(search.maxDepth),
    picker: search.picker === PickerPolicy.UNSPECIFIED ? PickerPolicy.LLM : search.picker,
    synthesis: search.synthesis ?? true,
    root: prompts?.root ?? '',
    document: prompts?.document ?? '',
    children: prompts?.children ?? '',
    pickerPrompt: prompts?.picker ?? '',
    schema: search.frontmatterSchema === undefined ? '' : JSON.stringify(search.frontmatterSchema, null, 2),
  };
}

/** The most topics at a time and levels that the server takes. */
export function searchLimits(limits: Limits | undefined): { concurrency: number; maxDepth: number } {
  const most = limits?.maxBudgets;
  return {
    concurrency: Math.min(256, most?.maxParallelSteps ?? 256),
    maxDepth: Math.max(1, Math.min(64, most?.maxDepth ?? 64)),
  };
}

/** What is wrong with each option; empty where nothing is. */
export function searchProblems(options: SearchOptions, limits: Limits | undefined) {
  const most = searchLimits(limits);
  const promptBytes = limits?.promptBytes || PROMPT_BYTES;
  return {
    concurrency: checkCount(options.concurrency, most.concurrency),
    maxDepth: checkCount(options.maxDepth, most.maxDepth),
    root: tooLong(options.root, promptBytes),
    document: tooLong(options.document, promptBytes),
    children: tooLong(options.children, promptBytes),
    pickerPrompt: tooLong(options.pickerPrompt, promptBytes),
    schema: checkSchema(options.schema, promptBytes),
  };
}
