// How documents of a run are called and drawn.

import { DocumentKind, type DocumentSummary } from '../gen/treeagent/v1/document_service_pb';

export interface KindLook {
  label: string;
  icon: string;
  /** Siblings are sorted by it first. */
  rank: number;
}

const LOOKS: Partial<Record<DocumentKind, KindLook>> = {
  [DocumentKind.WORKSPACE]: { label: 'Workspace', icon: 'folder', rank: 0 },
  [DocumentKind.HOMEWORK_WORKSPACE]: { label: 'Workspace', icon: 'folder', rank: 0 },
  [DocumentKind.HOMEWORK_SCRATCHPAD]: { label: 'Main scratchpad', icon: 'edit', rank: 1 },
  [DocumentKind.HOMEWORK_PLAN]: { label: 'Plan', icon: 'plan', rank: 2 },
  [DocumentKind.ARTIFACT]: { label: 'Artifact', icon: 'box', rank: 3 },
  [DocumentKind.HOMEWORK_BRANCH]: { label: 'Branch', icon: 'branch', rank: 4 },
  [DocumentKind.HOMEWORK_SUMMARY]: { label: 'Iteration summary', icon: 'list', rank: 5 },
  [DocumentKind.SCRATCHPAD]: { label: 'Scratchpad', icon: 'note', rank: 6 },
  [DocumentKind.TOOL_ANSWER]: { label: 'Tool answer', icon: 'tool', rank: 8 },
  [DocumentKind.PROMPT]: { label: 'Prompt', icon: 'note', rank: 8 },
  [DocumentKind.SOURCE]: { label: 'Source', icon: 'note', rank: 7 },
};

const OTHER: KindLook = { label: 'Document', icon: 'note', rank: 9 };

export const kindLook = (kind: DocumentKind): KindLook => LOOKS[kind] ?? OTHER;

/** Documents that are written on while the run is at work. */
const GROWING: ReadonlySet<DocumentKind> = new Set([
  DocumentKind.SCRATCHPAD,
  DocumentKind.HOMEWORK_SCRATCHPAD,
  DocumentKind.HOMEWORK_BRANCH,
  DocumentKind.HOMEWORK_PLAN,
]);

export const isGrowing = (kind: DocumentKind): boolean => GROWING.has(kind);

/** Documents whose text is replaced as a whole. Its versions are worth a look. */
export const isReplaced = (kind: DocumentKind): boolean => kind === DocumentKind.HOMEWORK_PLAN;

/** Documents that are there from the beginning of their run, whatever the log says about them. */
export function isFirst({ kind }: DocumentSummary): boolean {
  return (
    kind === DocumentKind.WORKSPACE || kind === DocumentKind.HOMEWORK_WORKSPACE || kind === DocumentKind.HOMEWORK_PLAN
  );
}

/** What a document is and where it belongs, in a few words. */
export function factsOf({ kind, branchId, iteration }: DocumentSummary): string[] {
  const facts = [kindLook(kind).label];
  if (branchId !== '')
    facts.push(kind === DocumentKind.HOMEWORK_BRANCH ? branchId.slice(0, 100) : `branch ${branchId.slice(0, 100)}`);
  if (iteration > 0) facts.push(`iteration ${iteration}`);
  return facts;
}

/** The last line of the end of a scratchpad, without the signs of Markdown at its beginning. */
export function lastEntry(tail: string): string {
  const line = tail.split('\n').findLast((text) => /[\p{L}\p{N}]/u.test(text)) ?? '';
  return line.replace(/^[\s#>*+-]+|\*\*|`/g, '').slice(0, 300);
}
