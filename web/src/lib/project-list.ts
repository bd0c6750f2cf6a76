// Projects and their documents: addresses, filters, and how a document is shown.

import { address } from './address';
import { MemberRole, ProjectStatus, type Project, type ToolRules } from '../gen/treeagent/v1/project_service_pb';

/** The address of a project, or of one of its documents, with what is searched for. */
export const projectUrl = (projectId: string, path = '', q = ''): string =>
  address(`/projects/${encodeURIComponent(projectId)}`, { path, q });

export const PROJECT_FILTERS = [
  { key: '', label: 'Active', statuses: [ProjectStatus.ACTIVE] },
  { key: 'archived', label: 'Archived', statuses: [ProjectStatus.ARCHIVED] },
  { key: 'all', label: 'All', statuses: [] },
];

export const ROLES = [
  { value: MemberRole.READER, label: 'Reader' },
  { value: MemberRole.EDITOR, label: 'Editor' },
  { value: MemberRole.OWNER, label: 'Owner' },
];

/** Whether the caller may do in a project what this role may. Servers of version 0.2 know no roles. */
export const may = (project: Project | undefined, role: MemberRole): boolean =>
  project !== undefined && (project.callerRole === MemberRole.UNSPECIFIED || project.callerRole >= role);

export const isArchived = (project: Project | undefined): boolean => project?.status === ProjectStatus.ARCHIVED;

const MARKDOWN = new Set(
  ' md markdown mdx html htm xhtml pdf docx doc odt rtf epub pptx ppt odp xlsx xls ods csv tsv eml'.split(' '),
);

/**
 * Whether a document at this path is Markdown. What the import converts is, too: HTML, PDF, office files, sheets, mail.
 * Other files are plain text.
 */
export function isMarkdown(path: string): boolean {
  // Further parts of a long file are below its path.
  const file = path
    .replace(/\/part-\d+$/, '')
    .split('/')
    .at(-1)!;
  const dot = file.lastIndexOf('.');
  return MARKDOWN.has(dot <= 0 ? '' : file.slice(dot + 1).toLowerCase());
}

export interface Piece {
  text: string;
  found: boolean;
}

/** A text in pieces: those that are a word of the query, letter case aside, and what is between them. */
export function highlight(text: string, query: string): Piece[] {
  const words = query.split(/[^\p{L}\p{N}]+/u).filter((word) => word.length > 1);
  if (words.length === 0) return [{ text, found: false }];
  const longest = words.sort((a, b) => b.length - a.length).join('|');
  return text
    .split(new RegExp(`(${longest})`, 'giu'))
    .map((piece, i) => ({ text: piece, found: i % 2 === 1 }))
    .filter((piece) => piece.text !== '');
}

/** What tools may not do in a project, and what they may although they usually may not. Nothing for the default. */
export function ruleWords(rules: ToolRules | undefined): string[] {
  if (rules === undefined) return [];
  return [
    ...(rules.readOnly ? ['No tool writes'] : []),
    ...(rules.allowedTools.length > 0 ? [`Only ${rules.allowedTools.join(', ')}`] : []),
    ...(rules.deniedTools.length > 0 ? [`Not ${rules.deniedTools.join(', ')}`] : []),
    ...(rules.replaceImported ? ['Tools may replace imported documents'] : []),
  ];
}

/** The names of tools in a text. */
export const toolNames = (text: string): string[] => [...new Set(text.split(/[\s,]+/).filter((name) => name !== ''))];
