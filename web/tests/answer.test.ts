import { create } from '@bufbuild/protobuf';
import { describe, expect, it } from 'vitest';
import { CitationSchema, CitedClaimSchema, Verdict, type CitedClaim } from '../src/gen/treeagent/v1/citations_pb';
import { chainOf, claimBefore, claimOf, endsOf, entryOf, headingsAbove, isWhole } from '../src/lib/answer/entries';
import { shaped } from '../src/lib/answer/shape';
import { checkWords } from '../src/lib/answer/words';
import { countWords, isNotFound } from '../src/lib/citations/words';
import { visible } from '../src/lib/markdown/tree';
import { eventWords } from '../src/lib/words';
import { read } from './markdown';

const claim = (index: number, words: string, restsOn: number[] = [], documentId = `d${index}`): CitedClaim =>
  create(CitedClaimSchema, {
    index: BigInt(index),
    restsOn: restsOn.map(BigInt),
    citation: create(CitationSchema, { claim: words, quote: `“${words}”`, documentId, verdict: Verdict.VERIFIED }),
  });

const OFFLINE =
  '# The question\n\n*A remark.*\n\n### a.md › A\n\n> One\n> two \\[^2] linkgit:a[1]. [^1]\n\n### b.md\n\n> | a |\n> | --- |\n> | b |\n>\n> [^2]\n\n> - item\n> - last [^1]\n' +
  '\n[^1]: a.md › A\n[^2]: b.md\n';

const shape = (text: string, title = 'The question', cited = ['a', '1', '2']) => {
  const part = { from: 0, text, before: '' };
  return { ...shaped(part, read(text), { title, isCited: (id) => cited.includes(id) }), text, part };
};
const keys = (tree: unknown): string[] =>
  [...JSON.stringify(tree).matchAll(/"key":"([^"]*)"/g)].map((found) => found[1]!);

describe('the text of an answer', () => {
  it('has no title of its own, and pills where it cites, which text of a source is not', () => {
    const { children, text } = shape(OFFLINE);
    expect(children.slice(0, 6).map((one) => one.type)).toEqual([
      'paragraph',
      'heading',
      'blockquote',
      'heading',
      'blockquote',
      'blockquote',
    ]);
    expect(visible(children[2]!)).toBe('One\ntwo [^2] linkgit:a[1]. ');
    expect(children[4]).toMatchObject({ children: [{ type: 'table' }, { children: [{ type: 'cite' }] }] });
    expect(keys(children).map((key) => text.slice(Number(key)).slice(0, 4))).toEqual(['[^1]', '[^2]', '[^1]']);
  });

  it('leaves out a heading that the page says whole, and no other one', () => {
    const long = 'You are preparing. The question that is long';
    expect(shape('# The question that \u2026\n\nText.', long).children).toHaveLength(1);
    expect(shape('# Another\n\nText.').children).toHaveLength(2);
    expect(keys(shape('Text [1].\n\n## Sources\n\n1. a.md'))).toEqual([]);
  });

  it('makes pills of footnotes that cite, and of no others', () => {
    const { children } = shape('One[^a], two[^b].\n\n[^a]: x\n[^b]: y\n', '', ['a']);
    expect(children[0]).toMatchObject({
      children: [{}, { type: 'cite', note: 'a' }, {}, { type: 'footnoteReference' }, {}],
    });
  });
});

describe('what a pill leads to', () => {
  it('is the citation whose claim ends before it', () => {
    const { text, part } = shape(OFFLINE);
    const claims = [claim(0, 'One\ntwo \\[^2] linkgit:a[1].'), claim(1, '| a |\n| --- |\n| b |')];
    const moved = { ...part, from: 100 };
    const ends = endsOf(moved, claims);
    expect(claimBefore(moved, ends, text.indexOf(' [^1]') + 101)).toBe(claims[0]);
    expect(claimBefore(moved, ends, text.indexOf('> [^2]') + 102)).toBe(claims[1]);
    expect(claimBefore(moved, ends, text.length + 100)).toBeUndefined();
  });

  it('is the citation with the document and the words of a footnote', () => {
    const claims = [claim(0, 'One', [], 'd'), claim(1, 'Two', [], 'd')];
    const note = { identifier: 'a', number: 1, refs: 1, children: [], document: 'd', quote: '"Two"' };
    expect(claimOf(note, claims)).toBe(claims[1]);
    expect(claimOf({ ...note, document: 'e' }, claims)).toBeUndefined();
    expect(entryOf(1, '', [], note)).toMatchObject({ documentId: 'd', quote: '"Two"' });
  });

  it('is the source at the end of the chain', () => {
    const all = [claim(0, 'a', [1]), claim(1, 'b', [2]), claim(2, 'c'), claim(3, 'd', [3])];
    const byIndex = new Map(all.map((one) => [one.index, one]));
    const chain = chainOf(all[0]!, byIndex);
    expect(chain).toEqual(all.slice(0, 3));
    expect(isWhole(chain)).toBe(true);
    expect(entryOf(7, 'x', chain)).toMatchObject({ number: 7, documentId: 'd2', quote: '“c”' });
    byIndex.delete(2n);
    expect(isWhole(chainOf(all[0]!, byIndex))).toBe(false);
    // What rests on itself ends.
    expect(chainOf(all[3]!, byIndex)).toEqual([all[3]]);
  });

  it('stands below the headings of its document', () => {
    const text = '# A\n\n## B\n\nx\n\n```\n# no\n```\n\n### C #\n\ny\n\n## D\n\nz';
    expect(headingsAbove(text, text.indexOf('x'))).toEqual(['A', 'B']);
    expect(headingsAbove(text, text.indexOf('y'))).toEqual(['A', 'B', 'C']);
    expect(headingsAbove(text, text.indexOf('z'))).toEqual(['A', 'D']);
  });
});

describe('the words about an answer', () => {
  it('say what is doubted or was not checked, and why', () => {
    const counts = {
      total: 3,
      found: 1,
      notFound: 1,
      supported: 0,
      doubted: 1,
      notChecked: 2,
      reasons: ['no source', 'something new'],
    };
    expect(checkWords(counts, { summary: '', notChecked: 'rate limit' })).toEqual([
      'Nobody has checked this answer as a whole: the model had reached its rate limit.',
      '1 statement has quotes that were not found in their sources; underlined in the text.',
      '2 statements were not checked: they cite no document; something new.',
    ]);
    expect(checkWords({ ...counts, notFound: 0, notChecked: 0 }, undefined)).toEqual([]);
    expect(checkWords({ ...counts, notFound: 0, notChecked: 0, contradicted: 1 }, undefined)).toEqual([
      '1 statement says something else than a quote; underlined in the text.',
    ]);
  });
});

describe('the words about quotes', () => {
  it('say what was found, and nothing beside an answer that was not', () => {
    const counts = { total: 2, found: 2, notFound: 0, supported: 0, doubted: 0, notChecked: 0 };
    expect(countWords(counts)).toBe('2 quotes, all found in their sources');
    expect(countWords({ ...counts, total: 1, found: 1 })).toBe('1 quote, found in its source');
    expect(countWords({ ...counts, total: 3 })).toBe('Statements: 2 with quotes found in their sources');
    expect(countWords({ ...counts, total: 0, found: 0 })).toBe('Nothing is cited');
    expect(countWords({ ...counts, total: 3, found: 3, supported: 1, contradicted: 1, notChecked: 1 })).toBe(
      'Statements: 1 supported by their quotes, 1 with quotes found in their sources, ' +
        '1 contradicted by a quote, 1 not checked',
    );
    const of = { kind: 'hybrid' as const, summary: '', artifactIds: [], documentIds: [] };
    const result = { ...of, successAssessment: { met: false }, jsonPayload: { missing: 'x' } };
    expect(isNotFound(result)).toBe(true);
    expect(isNotFound({ ...result, jsonPayload: { missing: null } })).toBe(false);
  });
});

describe('plain words', () => {
  it('stand for types of events', () => {
    expect(eventWords('tree.node_status')).toBe('Status changed');
    expect(eventWords('tree.node_created')).toBe('Node created');
    expect(eventWords('tree.from_the_future')).toBe('From the future');
  });
});
