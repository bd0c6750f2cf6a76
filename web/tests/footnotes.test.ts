import { describe, expect, it } from 'vitest';
import { rangeOf, visible } from '../src/lib/markdown/tree';
import { read } from './markdown';

const ID = '69f7be3e-da1c-56c7-a447-a2d0d9542169';

describe('footnotes', () => {
  it('are numbered by their first reference and come at the end', () => {
    const tree = read('One[^b] and **two[^a]**, again[^B].\n\n[^a]: The *first*.\n[^b]: The second.\n\nMore text.');
    expect(tree.children.map((b) => b.type)).toEqual(['paragraph', 'paragraph']);
    expect(tree.children[0]).toMatchObject({
      children: [
        { value: 'One' },
        { type: 'footnoteReference', data: { number: 1, ref: 1 } },
        { value: ' and ' },
        { type: 'strong', children: [{ value: 'two' }, { data: { number: 2, ref: 1 } }] },
        { value: ', again' },
        { data: { number: 1, ref: 2 } },
        { value: '.' },
      ],
    });
    expect(tree.notes).toMatchObject([
      { number: 1, refs: 2, children: [{ children: [{ value: 'The second.' }] }] },
      { number: 2, refs: 1, children: [{ children: [{ value: 'The ' }, { type: 'emphasis' }, { value: '.' }] }] },
    ]);
  });

  it('refer to each other, and to themselves', () => {
    expect(read('A[^1].\n\n[^1]: See[^2].\n[^2]: See[^1] and[^2].').notes).toMatchObject([
      { number: 1, refs: 2 },
      { number: 2, refs: 2 },
    ]);
  });

  it('lose nothing: unknown references are text, and notes without references come last', () => {
    const tree = read(
      'Not known[^x], [^], [^a b], `[^1]`.\n\n[^unused]: Still here.\n[^1]: And this.\n[^1]: A second one.\n',
    );
    expect(visible(tree.children[0]!)).toContain('Not known[^x], [^], [^a b], [^1].');
    expect(tree.notes.map(({ number, refs }) => [number, refs])).toEqual([
      [1, 0],
      [2, 0],
      [3, 0],
    ]);
  });

  it('go on in lines that are indented', () => {
    const [note] = read('A[^1].\n\n[^1]: First.\n    Still the first.\n\n    - item\n\nText.').notes;
    expect(note!.children.map((b) => b.type)).toEqual(['paragraph', 'list']);
  });

  it('go on in lines that follow at once, unless these begin something else', () => {
    const tree = read(
      `A[^1][^2].\n\n[^1]: ${ID} "exact\nwords"\n[^2]: More.\n# Heading\n[^3]: a\n- item\n\n[^4]: b\n\nText.`,
    );
    expect(tree.children.map((b) => b.type)).toEqual(['paragraph', 'heading', 'list', 'paragraph']);
    expect(tree.notes.map((note) => note.quote ?? note.children)).toMatchObject([
      'exact\nwords',
      [{ children: [{ value: 'More.' }] }],
      [{ children: [{ value: 'a' }] }],
      [{ children: [{ value: 'b' }] }],
    ]);
  });

  it.each([
    [`${ID} "exact words"`, 'exact words'],
    [`\`${ID}\`: \u201cexact \u2018own\u2019 words\u201d.`, 'exact \u2018own\u2019 words'],
    [`<${ID}>, "said "twice" here"`, 'said "twice" here'],
    [`${ID.toUpperCase()} exact words`, 'exact words'],
    [`${ID} "exact words" (unverified: the document does not contain these words)`, 'exact words'],
    [`${ID} "exact words" (nicht belegt: das Dokument enthält diese Worte nicht)`, 'exact words'],
    [`${ID} "words (unverified: of which some) go on"`, 'words (unverified: of which some) go on'],
    [`${ID} exact words (unverified: the document does not contain these words)`, 'exact words'],
    [`${ID} "exact words`, 'exact words'],
    [`${ID} ""`, undefined],
    [`${ID}`, undefined],
  ])('name their document first: %s', (text, quote) => {
    const [note] = read(`A[^1].\n\n[^1]: ${text}`).notes;
    expect(note!.document).toBe(ID);
    expect(note!.quote).toBe(quote);
    expect(note!.children.map(visible).join('')).not.toContain(ID);
    // What is left begins where it stands.
    const left = note!.children[0]?.type === 'paragraph' ? note!.children[0].children[0] : undefined;
    if (left?.type === 'text') expect(text.slice(rangeOf(left).from - 'A[^1].\n\n[^1]: '.length)).toBe(left.value);
  });

  it.each([[`${ID}0 "words"`], [`${ID}-a`], [`see ${ID} "words"`]])('name none otherwise: %s', (text) => {
    expect(read(`A[^1].\n\n[^1]: ${text}`).notes[0]!.document).toBeUndefined();
  });

  it('are text within code, and links stay links', () => {
    const tree = read('```\n[^1]: code\n```\n\n[^1](https://a.example)');
    expect(tree.notes).toEqual([]);
    expect(tree.children).toMatchObject([{ value: '[^1]: code' }, { children: [{ url: 'https://a.example' }] }]);
  });
});
