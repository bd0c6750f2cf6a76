import { describe, expect, it } from 'vitest';
import { markdown, type Block, type Note } from '../src/lib/markdown';

const ID = '69f7be3e-da1c-56c7-a447-a2d0d9542169';

const notesOf = (tree: Block[]): Note[] => {
  const last = tree.at(-1);
  return last?.kind === 'notes' ? last.notes : [];
};

describe('footnotes', () => {
  it('are numbered by their first reference and come at the end', () => {
    const tree = markdown('One[^b] and **two[^a]**, again[^B].\n\n[^a]: The *first*.\n[^b]: The second.\n\nMore text.');
    expect(tree.map((b) => b.kind)).toEqual(['paragraph', 'paragraph', 'notes']);
    expect(tree[0]).toMatchObject({
      children: [
        { text: 'One' },
        { kind: 'note', number: 1, ref: 1 },
        { text: ' and ' },
        { kind: 'strong', children: [{ text: 'two' }, { kind: 'note', number: 2, ref: 1 }] },
        { text: ', again' },
        { kind: 'note', number: 1, ref: 2 },
        { text: '.' },
      ],
    });
    expect(notesOf(tree)).toMatchObject([
      { number: 1, refs: 2, blocks: [{ children: [{ text: 'The second.' }] }] },
      { number: 2, refs: 1, blocks: [{ children: [{ text: 'The ' }, { kind: 'em' }, { text: '.' }] }] },
    ]);
  });

  it('refer to each other, and to themselves', () => {
    expect(notesOf(markdown('A[^1].\n\n[^1]: See[^2].\n[^2]: See[^1] and[^2].'))).toMatchObject([
      { number: 1, refs: 2 },
      { number: 2, refs: 2 },
    ]);
  });

  it('lose nothing: unknown references are text, and notes without references come last', () => {
    const tree = markdown(
      'Not known[^x], [^], [^a b], `[^1]`.\n\n[^unused]: Still here.\n[^1]: And this.\n[^1]: A second one.\n',
    );
    expect(JSON.stringify(tree[0])).toContain('[^x]');
    expect(JSON.stringify(tree[0])).not.toContain('"note"');
    expect(notesOf(tree).map(({ number, refs }) => [number, refs])).toEqual([
      [1, 0],
      [2, 0],
      [3, 0],
    ]);
  });

  it('go on in lines that are indented', () => {
    const [note] = notesOf(markdown('A[^1].\n\n[^1]: First.\n    Still the first.\n\n    - item\n\nText.'));
    expect(note!.blocks.map((b) => b.kind)).toEqual(['paragraph', 'list']);
  });

  it('go on in lines that follow at once, unless these begin something else', () => {
    const tree = markdown(
      `A[^1][^2].\n\n[^1]: ${ID} "exact\nwords"\n[^2]: More.\n# Heading\n[^3]: a\n- item\n\n[^4]: b\n\nText.`,
    );
    expect(tree.map((b) => b.kind)).toEqual(['paragraph', 'heading', 'list', 'paragraph', 'notes']);
    expect(notesOf(tree).map((note) => note.quote ?? note.blocks)).toMatchObject([
      'exact\nwords',
      [{ children: [{ text: 'More.' }] }],
      [{ children: [{ text: 'a' }] }],
      [{ children: [{ text: 'b' }] }],
    ]);
  });

  it.each([
    [`${ID} "exact words"`, 'exact words'],
    [`\`${ID}\`: \u201cexact \u2018own\u2019 words\u201d.`, 'exact \u2018own\u2019 words'],
    [`<${ID}>, "said "twice" here"`, 'said "twice" here'],
    [`${ID.toUpperCase()} exact words`, 'exact words'],
    [`${ID} "exact words" (unverified: the document does not contain these words)`, 'exact words'],
    [`${ID} "words (unverified: of which some) go on"`, 'words (unverified: of which some) go on'],
    [`${ID} exact words (unverified: the document does not contain these words)`, 'exact words'],
    [`${ID} "exact words`, 'exact words'],
    [`${ID} ""`, undefined],
    [`${ID}`, undefined],
  ])('name their document first: %s', (text, quote) => {
    const [note] = notesOf(markdown(`A[^1].\n\n[^1]: ${text}`));
    expect(note!.document).toBe(ID);
    expect(note!.quote).toBe(quote);
    expect(JSON.stringify(note!.blocks)).not.toContain(ID);
  });

  it.each([[`${ID}0 "words"`], [`${ID}-a`], [`see ${ID} "words"`]])('name none otherwise: %s', (text) => {
    expect(notesOf(markdown(`A[^1].\n\n[^1]: ${text}`))[0]!.document).toBeUndefined();
  });

  it('are text within code, quotes and lists, and links stay links', () => {
    const tree = markdown('```\n[^1]: code\n```\n\n> [^1]: quoted\n\n- [^1]: item\n\n[^1](https://a.example)');
    expect(notesOf(tree)).toEqual([]);
    expect(JSON.stringify(tree)).toContain('"href":"https://a.example"');
  });
});
