import { createHash } from 'node:crypto';
import type { Nodes } from 'mdast';
import { describe, expect, it } from 'vitest';
import { findAll, fold } from '../src/lib/citations/fold';
import { around, locate, placeFromText, placeToText, unitsAt, type Place } from '../src/lib/citations/passage';
import { sha256 } from '../src/lib/citations/sha256';
import { mark, placesOf, type Place as Marked } from '../src/lib/markdown/marks';
import { rangeOf, visible, type Mark } from '../src/lib/markdown/tree';
import { read } from './markdown';

const digest = (data: string | Uint8Array): string => createHash('sha256').update(data).digest('hex');

/** The place of some words of a text, as the server would say it. */
function placeOf(text: string, words: string): Place {
  const before = text.slice(0, text.indexOf(words));
  return { offset: Buffer.byteLength(before), bytes: Buffer.byteLength(words), sha256: digest(words) };
}

describe('SHA-256', () => {
  it('is the same as that of the platform, for every length around a block', () => {
    for (let length = 0; length < 200; length++) {
      const bytes = Uint8Array.from({ length }, (_, i) => (i * 31 + length) % 256);
      expect(sha256(bytes)).toBe(digest(bytes));
    }
    const long = new Uint8Array(100_000).fill(7);
    expect(sha256(long)).toBe(digest(long));
  });
});

describe('a passage', () => {
  const text = '# Ebbe — Flut\r\n\nÄ 潮 🌊🏽 a\u0301 | `x` |\n\nend';

  it('is at the units that its bytes say, whatever the characters', () => {
    for (let from = 0; from <= text.length; from++) {
      for (let to = from; to <= text.length; to++) {
        const [offset, bytes] = [Buffer.byteLength(text.slice(0, from)), Buffer.byteLength(text.slice(from, to))];
        // Half a character has no bytes of its own.
        if (
          /^[\udc00-\udfff]|[\ud800-\udbff]$/.test(text.slice(from, to)) ||
          /[\ud800-\udbff]$/.test(text.slice(0, from))
        )
          continue;
        expect(unitsAt(text, offset, bytes)).toEqual({ from, to });
      }
    }
  });

  it('is nowhere if its bytes divide a character or lie behind the end', () => {
    const at = Buffer.byteLength(text.slice(0, text.indexOf('潮')));
    expect(unitsAt(text, at + 1, 4)).toBeUndefined();
    expect(unitsAt(text, at, 2)).toBeUndefined();
    expect(unitsAt(text, Buffer.byteLength(text) - 1, 2)).toBeUndefined();
    expect(unitsAt(text, Buffer.byteLength(text) + 1, 0)).toBeUndefined();
  });

  it('is there, has moved, or has changed', () => {
    const body = 'Zwölf Meter 🌊 hoch. The tide turns twice a day.';
    const quote = 'The tide turns twice a day';
    const passage = placeOf(body, quote);
    const from = body.indexOf(quote);
    expect(locate(body, { passage, quote })).toEqual({ state: 'there', range: { from, to: from + quote.length } });
    expect(locate(body, { passage })).toMatchObject({ state: 'there' });
    expect(locate(`More. ${body}`, { passage, quote })).toEqual({
      state: 'moved',
      range: { from: from + 6, to: from + 6 + quote.length },
    });
    expect(locate(`More. ${body}`, { passage })).toEqual({ state: 'changed' });
    expect(locate(body.replace('twice', 'thrice'), { passage, quote })).toEqual({ state: 'changed' });
    expect(locate(body, { quote: 'The  tide turns' })).toMatchObject({ state: 'found', range: { from } });
    expect(locate(body, { quote: 'The tide turned' })).toEqual({ state: 'absent' });
    expect(locate('', { passage, quote })).toEqual({ state: 'changed' });
  });

  it('is part of an address', () => {
    const place = placeOf(text, '潮');
    expect(placeFromText(placeToText(place))).toEqual(place);
    for (const wrong of ['', '1.2', '1.2.x', '-1.2.' + 'a'.repeat(64)]) expect(placeFromText(wrong)).toBeUndefined();
  });

  it('is always within what is shown of a long text', () => {
    const long = '🌊'.repeat(500);
    for (const at of [0, 2, 100, 499 * 2, 998]) {
      const shown = around(long, { from: at, to: at + 2 }, 100);
      expect(shown.from).toBeLessThanOrEqual(at);
      expect(shown.to).toBeGreaterThanOrEqual(at + 2);
      expect(shown.to - shown.from).toBeLessThanOrEqual(101);
      expect(long.slice(shown.from, shown.to)).toMatch(/^(?:🌊)+$/u);
    }
    expect(around('short', { from: 1, to: 2 }, 100)).toEqual({ from: 0, to: 5 });
  });
});

describe('words in a text', () => {
  const first = (text: string, words: string): string | undefined => {
    const [range] = findAll(fold(text), words, 1);
    return range && text.slice(range.from, range.to);
  };

  it('are found although white space and typography differ, and nothing else', () => {
    const text = 'It said: \u201cThe tide\n   turns \u2014 twice\u00a0a day\u201d, and more\u2026';
    expect(first(text, '"The tide turns - twice a\u200b day"')).toBe(
      '\u201cThe tide\n   turns \u2014 twice\u00a0a day\u201d',
    );
    expect(first(text, 'and more...')).toBe('and more\u2026');
    expect(first('It has 12[^1] arches.[^23]', '12 arches.')).toBe('12[^1] arches.');
    expect(first('It has 12[^x] arches.', '12 arches.')).toBeUndefined();
    expect(first('one\u2028a day', 'one a day')).toBe('one\u2028a day');
    const people = '1\u202f500\u202f000 people';
    expect(first(`It has ${people}.`, '1 500 000 people')).toBe(people);
    expect(first('\ufeffa\u{e0001}b\ufe0fc \u{1f30a}', 'abc \u{1f30a}')).toBe('a\u{e0001}b\ufe0fc \u{1f30a}');
    for (const other of ['the tide turns', 'The tide turned', 'he tide', 'The tid', '', ' \n '])
      expect(first(text, other)).toBeUndefined();
  });

  it('are whole words, where words have white space around them', () => {
    const text = 'It is impossible to escape, but possible to hide. 潮は一日に二回変わる。';
    expect(first(text, 'possible to escape')).toBeUndefined();
    expect(first(text, 'possible to hide')).toBe('possible to hide');
    expect(first(text, '一日に二回')).toBe('一日に二回');
  });

  it.each([
    ['the bridge can', 'the bridge can\u2019t be crossed'],
    ["'t be crossed", "the bridge can't be crossed"],
    ['a population of 1', 'a population of 1,500,000'],
    ['500,000 people', '1,500,000 people'],
    ['the toll costs 12.', 'the toll costs 12.50'],
    ['.50 at night', '12.50 at night'],
    ['5 degrees in winter', 'it has \u22125 degrees in winter'],
    ['5 inches', 'some .5 inches'],
    ['가능하다고 말했다', '불가능하다고 말했다'],
    ['cien an', 'cien an\u0303os'],
    ['legal in all states', 'il\u2063legal in all states'],
    ['๕ ตัว', '๑๕ ตัว'],
    ['𝐀𝐁', '𝐀𝐁𝐂'],
    ['500 000 people', '1\u202f500\u202f000 people'],
    ['500 000 people', '1\u00a0500\u00a0000 people'],
    ['a town of 1 500', 'a town of 1\u2009500\u2009000 people'],
    ['toxic to fish', 'non-toxic to fish'],
    ['toxic to fish', 'non\u2011toxic to fish'],
    ['-toxic to fish', 'non-toxic to fish'],
    ['it is non-', 'it is non-toxic'],
    ['it is sugar', 'it is sugar-\u00adfree'],
    ['$500 of profit', '-$500 of profit'],
    ['500 of profit', '-$500 of profit'],
    ['€500 of profit', '\u2212€500 of profit'],
    ['5 euros in winter', '1/5 euros in winter'],
    ['5 euros in winter', '1\u20445 euros in winter'],
    ['it costs 1', 'it costs 1/5 euros'],
  ])('are not a part of a word or a number: %j in %j', (words, text) => expect(first(text, words)).toBeUndefined());

  it.each([
    ['10 10 10 10', '110 10 10 10 10'],
    ['has 12', 'The bridge has 12. It is old.'],
    ['has 12', "'The bridge has 12', he said"],
    ['5 degrees', 'some ...5 degrees'],
    ['人口は12', 'この人口は12万人'],
    ['カタ', 'ヒラカタカナー'],
    ['ปลา', 'กินปลาทู'],
    ['𝐀𝐁', '\u{1f30a}𝐀𝐁\u{1f30a}'],
    ['non-toxic to fish', 'It is non-toxic to fish.'],
    ['1/5 euros in winter', 'costs 1/5 euros in winter'],
    ['-$500 of profit', 'made -$500 of profit'],
    ['$500 of profit', 'made $500 of profit'],
    ['500 of profit', 'made $500 of profit'],
    ['$500 of profit', 'made...$500 of profit'],
    ['000 people', 'some 500 000 people'],
    ['has 12 arches', 'it has 12 arches\u2014two are wide'],
    ['two are wide', 'it has 12 arches--two are wide'],
    ['or rivers', 'seas and/or rivers'],
    ['500 people', 'about\u00a0500 people'],
  ])('may stand beside other characters: %j in %j', (words, text) => expect(first(text, words)).toBe(words));

  it('are found in linear time', () => {
    const n = 200_000;
    const hostile = fold('a'.repeat(n));
    const before = performance.now();
    expect(findAll(hostile, `${'a'.repeat(2000)}b`)).toEqual([]);
    expect(findAll(hostile, `b${'a'.repeat(2000)}`)).toEqual([]);
    expect(findAll(fold('ab'.repeat(n / 2)), `${'ab'.repeat(1000)}c`)).toEqual([]);
    // 400 million comparisons would take longer.
    expect(performance.now() - before).toBeLessThan(2000);
  });
});

const marksOf = (node: Nodes): Mark[] =>
  node.type === 'mark'
    ? [node]
    : node.type === 'code'
      ? (node.data?.marked ?? []).flatMap(marksOf)
      : 'children' in node
        ? node.children.flatMap(marksOf)
        : [];

describe('forms of characters and marks of Markdown', () => {
  it.each([
    ['the first office', 'the \ufb01rst o\ufb03ce'],
    ['ｔｈｅ ｔｉｄｅ', 'the tide'],
    ['the north harbour', 'the **north** har\u00ad\nbour'],
    ['run cargo build now', 'run `cargo build` now'],
    ['see the harbour of', 'see [the harbour](https://a.example/b) of'],
    ['locks and a tower', 'locks\n> and a tower'],
    ['3 * 5 and a_b', '3 \\* 5 and a\\_b'],
  ])('do not hide %j in %j', (words, text) => {
    expect(findAll(fold(text), words, 1)).toEqual([{ from: 0, to: text.length }]);
  });

  it.each([
    ['the area is 102 m', 'the area is 10\u00b2 m'],
    ['23 apples', '2*3 apples'],
    ['25 apples', '2**5 apples'],
    ['snakecase', 'snake_case'],
  ])('do not make %j of %j', (words, text) => expect(findAll(fold(text), words)).toEqual([]));
});

describe('claims in Markdown', () => {
  const marks = (text: string, ...claims: string[]) => {
    const plain = read(text);
    const doubts = claims.map((claim, i) => ({ claim, why: `why ${i}` }));
    const tree = mark(plain, text, 0, placesOf(text, 0, doubts));
    const found = marksOf(tree).map((one) => ({ text: visible(one), why: one.why, last: one.last }));
    return { marks: found, tree, plain };
  };
  const said = (found: { marks: { text: string }[] }): string => found.marks.map((m) => m.text).join('');

  it('are marked as they are read, over emphasis, code and lines', () => {
    const found = marks('# Head\n\nBefore. The **moon** pulls\nthe `sea`. After.', 'The **moon** pulls the `sea`.');
    expect(said(found)).toBe('The moon pulls\nthe sea.');
    expect(found.marks.map((m) => m.last)).toEqual([false, false, false, false, true]);
  });

  it('are marked in headings, lists, quotes and tables, each time that they stand there', () => {
    const claim = 'Sixteen metres.';
    const table = `| a | b |\n|---|---|\n| ${claim} | Twelve metres. |`;
    const found = marks(`# ${claim}\n\n- a ${claim}\n\n> ${claim}\n\n${table}`, claim);
    expect(found.marks).toEqual(Array.from({ length: 4 }, () => ({ text: claim, why: 'why 0', last: true })));
  });

  it('are marked as rows of tables, and as sentences that begin within emphasis', () => {
    const text =
      '| arch | width |\n|---|---|\n| first *one* | 30 m[^1] |\n| first one | 31 m |\n\n' +
      '**It stands. It is old.**\n\n[^1]: Said.';
    const found = marks(text, '| first *one* | 30 m |', '**It stands.', '| | |');
    expect(found.marks.map((m) => [m.text, m.last])).toEqual([
      ['first ', false],
      ['one', false],
      ['30 m', true],
      ['It stands.', true],
    ]);
  });

  it('are marked over whole lists and tables, and in code', () => {
    const list = '- one *two*\n- three';
    expect(said(marks(`Words.\n\n${list}\n\nMore.`, list))).toBe('one twothree');
    expect(said(marks('```rust\nrust is here\n```', 'rust is'))).toBe('rust is');
  });

  it('change nothing but marks', () => {
    const text = 'One **two *three* four** five. [Six](https://a.example) `seven` &amp;\n> and\n> *eight*';
    const found = marks(text, 'three four five', 'Six seven', 'One', 'and eight');
    expect(found.marks.filter((one) => one.last).map((one) => one.why)).toEqual(['why 2', 'why 0', 'why 1', 'why 3']);
    expect(visible(found.tree)).toBe(visible(found.plain));
  });

  it('overlap without saying anything twice', () => {
    expect(marks('One two three four.', 'One two three', 'two three four.').marks).toEqual([
      { text: 'One two three', why: 'why 0', last: true },
      { text: ' four.', why: 'why 1', last: true },
    ]);
  });

  it('are one range where their places overlap, so that many of them cost little', () => {
    const n = 200_000;
    const text = 'ab '.repeat(n / 3);
    expect(findAll(fold(text), 'ab ab')).toEqual([{ from: 0, to: text.trim().length }]);
    const claims = Array.from({ length: 128 }, (_, i) => 'ab '.repeat(i + 1).trim());
    const doubts = claims.map((claim) => ({ claim, why: claim }));
    expect(placesOf(text, 7, doubts)).toMatchObject([{ from: 7, to: 7 + text.trim().length }]);
  });

  it('are not marked where they are not', () => {
    const found = marks('One two.\n\nThree four.', 'Five', '', '\u0000');
    expect(found.tree).toBe(found.plain);
  });

  it('leave passages to those who look for them', () => {
    const text = 'Before.\n\n| a | b |\n|---|---|\n| **c** | d |\n\nAfter.';
    const range = { from: text.indexOf('| **c'), to: text.indexOf('\n\nAfter') };
    const place: Marked = { ...range, kind: 'passage', why: '' };
    const tree = mark(read(text), text, 0, [place]);
    expect(marksOf(tree).map(visible)).toEqual(['c', 'd']);
    // A part of a text that begins elsewhere has positions of the whole.
    const part = mark(read(`\u0020${text}`), ` ${text}`, 0, [{ ...place, from: range.from + 1, to: range.to + 1 }]);
    expect(marksOf(part).map(visible)).toEqual(['c', 'd']);
    expect(rangeOf(tree.children[2]!).to).toBe(text.length);
  });
});
