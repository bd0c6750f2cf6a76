import { create } from '@bufbuild/protobuf';
import { describe, expect, it } from 'vitest';
import { foldersAbove, FolderTree } from '../src/lib/folder-tree';
import { ToolRulesSchema } from '../src/gen/treeagent/v1/project_service_pb';
import { highlight, isMarkdown, projectUrl, ruleWords, toolNames } from '../src/lib/project-list';
import { treeKey, type TreeEntry } from '../src/lib/tree-entry';

const filed = (path: string) => ({ documentId: `id of ${path}`, path, title: path });
const PATHS = [
  'readme.md',
  'notes/b.md',
  'notes/a-10.md',
  'notes/a-2.md',
  'log.txt',
  'log.txt/part-02',
  'notes/deep/c.md',
];

describe('the documents of a project as folders', () => {
  const tree = new FolderTree(PATHS.map(filed));
  const rows = (...open: string[]) => tree.rows((path) => open.includes(path));

  it('shows folders first, each with the number of its documents, and only what is open', () => {
    expect(tree.size).toBe(7);
    expect(rows().map((r) => [r.id, r.expanded, r.count])).toEqual([
      ['log.txt', false, 1],
      ['notes', false, 4],
      ['readme.md', undefined, 0],
    ]);
    expect(rows('notes').map((r) => [r.id, r.level, r.place, r.siblings])).toEqual([
      ['log.txt', 1, 1, 3],
      ['notes', 1, 2, 3],
      ['notes/deep', 2, 1, 4],
      ['notes/a-2.md', 2, 2, 4],
      ['notes/a-10.md', 2, 3, 4],
      ['notes/b.md', 2, 4, 4],
      ['readme.md', 1, 3, 3],
    ]);
  });

  it('has the further parts of a long file below the file', () => {
    const [file, part] = rows('log.txt');
    expect(file).toMatchObject({ id: 'log.txt', expanded: true, document: { documentId: 'id of log.txt' } });
    expect(part).toMatchObject({ id: 'log.txt/part-02', parentId: 'log.txt', name: 'part-02' });
    expect(foldersAbove('notes/deep/c.md')).toEqual(['notes', 'notes/deep']);
    expect(foldersAbove('readme.md')).toEqual([]);
  });

  it('takes 10,000 documents, and names that every object has', () => {
    const many = new FolderTree(
      Array.from({ length: 10_000 }, (_, i) => filed(`constructor/${i % 100}/__proto__/${i}.md`)),
    );
    expect(many.size).toBe(10_000);
    expect(many.rows(() => true)).toHaveLength(1 + 100 + 100 + 10_000);
  });
});

describe('the keys of a tree', () => {
  const row = (id: string, parentId?: string, expanded?: boolean): TreeEntry => ({
    id,
    parentId,
    level: 1,
    place: 1,
    siblings: 1,
    ...(expanded === undefined ? {} : { expanded }),
  });
  const rows = [row('a', undefined, true), row('b', 'a', false), row('c', 'a')];

  it('move, open, close and choose as the ARIA tree pattern says', () => {
    expect(treeKey('ArrowDown', rows, 2)).toEqual({ focus: 2 });
    expect(treeKey('ArrowUp', rows, 2)).toEqual({ focus: 1 });
    expect(treeKey('Home', rows, 2)).toEqual({ focus: 0 });
    expect(treeKey('End', rows, 0)).toEqual({ focus: 2 });
    expect(treeKey('ArrowRight', rows, 0)).toEqual({ focus: 1 });
    expect(treeKey('ArrowRight', rows, 1)).toEqual({ toggle: 'b', open: true });
    expect(treeKey('ArrowRight', rows, 2)).toBeUndefined();
    expect(treeKey('ArrowLeft', rows, 0)).toEqual({ toggle: 'a', open: false });
    expect(treeKey('ArrowLeft', rows, 1)).toEqual({ focus: 0 });
    expect(treeKey('Enter', rows, 2)).toEqual({ choose: 'c' });
    expect(treeKey('x', rows, 2)).toBeUndefined();
    expect(treeKey('Enter', rows, 9)).toBeUndefined();
  });
});

describe('a document of a project', () => {
  it('has an address that holds any path', () => {
    expect(projectUrl('p-1')).toBe('/projects/p-1');
    const url = new URL(projectUrl('p-1', 'a b/ü&?#.md'), 'http://localhost');
    expect([url.pathname, url.searchParams.get('path'), url.hash]).toEqual(['/projects/p-1', 'a b/ü&?#.md', '']);
  });

  it('is Markdown by the end of its path, also the further parts of a long one', () => {
    for (const path of ['a.md', 'a/B.MD', 'README', 'page.html', 'long.md/part-02', '.notes', 'a.pdf', 'b.XLSX'])
      expect(isMarkdown(path), path).toBe(true);
    for (const path of ['main.rs', 'a.md/x.txt', 'data.json', 'log.txt/part-10'])
      expect(isMarkdown(path), path).toBe(false);
  });

  it('marks the words of a search, whatever signs the query has', () => {
    expect(highlight('Tides follow the Moon.', 'moon (tide')).toEqual([
      { text: 'Tide', found: true },
      { text: 's follow the ', found: false },
      { text: 'Moon', found: true },
      { text: '.', found: false },
    ]);
    expect(highlight('a.b', '.* a')).toEqual([{ text: 'a.b', found: false }]);
  });
});

describe('the rules for tools', () => {
  it('are told as far as they are not the default', () => {
    const words = (rules: object) => ruleWords(create(ToolRulesSchema, rules));
    expect([ruleWords(undefined), words({})]).toEqual([[], []]);
    expect(words({ readOnly: true, allowedTools: ['a', 's__b'], deniedTools: ['c'], replaceImported: true })).toEqual([
      'No tool writes',
      'Only a, s__b',
      'Not c',
      'Tools may replace imported documents',
    ]);
  });

  it('name each tool once', () => {
    expect(toolNames(' read, write\nread ,, s__x ')).toEqual(['read', 'write', 's__x']);
  });
});
