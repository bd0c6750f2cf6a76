import type { Nodes, Root } from 'mdast';
import { describe, expect, it } from 'vitest';
import { highlight } from '../src/lib/markdown/highlight';
import { origins } from '../src/lib/markdown/origins';
import { slices } from '../src/lib/markdown/slices';
import { rangeOf, visible } from '../src/lib/markdown/tree';
import { read } from './markdown';

const markdown = (text: string): Root['children'] => read(text).children;

describe('markdown', () => {
  it('reads what agents write', () => {
    const tree = markdown(
      '# Title\n\nSome **bold** and `code`.\n\n- one\n- two\n  - inner\n\n1. first\n2. second\n\n> said\n\n```rust\nfn main() {}\n```\n\n| a | b |\n|---|:-:|\n| 1 | 2 |\n\n---\n\n- [x] ~~done~~',
    );
    expect(tree.map((b) => b.type)).toEqual([
      'heading',
      'paragraph',
      'list',
      'list',
      'blockquote',
      'code',
      'table',
      'thematicBreak',
      'list',
    ]);
    expect(tree[2]).toMatchObject({
      ordered: false,
      children: [{ children: [{ type: 'paragraph' }] }, { children: [{ type: 'paragraph' }, { type: 'list' }] }],
    });
    expect(tree[5]).toMatchObject({ lang: 'rust', value: 'fn main() {}' });
    expect(tree[6]).toMatchObject({ align: [null, 'center'] });
    expect(tree[8]).toMatchObject({ children: [{ checked: true }] });
  });

  it.each([
    ['a **b *c* d** e', ['text', 'strong', 'text']],
    ['[label](https://a.example) https://b.example, [not] (this)', ['link', 'text', 'link', 'text']],
    ['[a branch](document:019bf6a1-0000-7000-8000-000000000001)', ['link']],
    ['[a topic](a/b/document.md)', ['link']],
    ['![a picture](https://a.example/b.png)', ['link']],
    ['[by its label][1]\n\n[1]: https://a.example', ['link']],
    ['[by its label][1]\n\n[1]: javascript:alert(1)', ['text']],
    ['*never closed __nor this [nor](this', ['text']],
  ])('recognises the parts of %j', (text, kinds) => {
    expect(markdown(text)).toMatchObject([{ type: 'paragraph', children: kinds.map((type) => ({ type })) }]);
  });

  it('keeps HTML as text and makes no link that could run', () => {
    const text =
      '<script>alert(1)</script>\n\na <img src=x onerror=alert(1)> [go](javascript:alert(1)) [ok](https://a.example/b) [x](document:1) ![y](data:image/svg+xml,x)';
    const tree = markdown(text);
    expect(tree.map(visible).join('\n\n')).toBe(text.replace('[ok](https://a.example/b)', 'ok'));
    const said = JSON.stringify(tree);
    expect(said).not.toContain('"html"');
    expect(said.match(/"url":"([^"]*)"/g)).toEqual(['"url":"https://a.example/b"']);
  });

  it('shows the words of links within a folder', () => {
    expect(markdown('See [*the* file](beside/it.md).').map(visible)).toEqual(['See the file.']);
  });

  it('shows what is nested too deep as text', () => {
    const deep = `${'>'.repeat(200)} a`;
    expect(markdown(deep).map(visible).join('')).toContain('> a');
  });

  it('knows where the characters of a text come from', () => {
    const source = '- One &amp; two\\*\n  th\u00f6ee `` x` `` &#128512;!';
    const [list] = markdown(source);
    const found: string[] = [];
    const visit = (node: Nodes): void => {
      if (node.type === 'text' || node.type === 'inlineCode') {
        const at = origins(node, source);
        found.push(
          node.value
            .split('')
            .map((char, i) => (char === source[at[i]!] ? char : `<${source[at[i]!]}>`))
            .join(''),
        );
        expect(at.at(-1)).toBe(rangeOf(node).to);
      } else if ('children' in node) node.children.forEach(visit);
    };
    visit(list!);
    expect(found).toEqual(['One & two*\nth\u00f6ee ', 'x`', ' <&><&>!']);
  });

  it('divides code into words with colours', () => {
    const text = 'let a = "b"; // c';
    const tokens = highlight(text, 'rust')!;
    expect(tokens.map(([, said]) => said).join('')).toBe(text);
    expect(tokens).toContainEqual(['string', '"b"']);
    expect(tokens).toContainEqual(['comment', '// c']);
    expect(highlight(text, 'no such language')).toBeUndefined();
  });
});

describe('slices', () => {
  const joined = (text: string): string =>
    slices(text)
      .map((slice) => slice.text)
      .join('');

  it('are cut where blocks end, and nothing is lost', () => {
    const item = '- An item\n\n  of two paragraphs\n\n';
    const text = `${item.repeat(700)}# Heading\n\n\`\`\`rust\n${'a\n\nb\n'.repeat(9000)}\`\`\`\n\nThe end.`;
    const found = slices(text);
    expect(joined(text)).toBe(text);
    expect(found[1]!.text.startsWith('# Heading')).toBe(true);
    // Code that is cut goes on as code.
    expect(found.map((slice) => slice.before)).toContain('```\n');
    expect(new Set(markdown(text).map((node) => node.type))).toEqual(new Set(['list', 'heading', 'code', 'paragraph']));
    for (const node of markdown(text)) expect(text.slice(rangeOf(node).from)).not.toBe('');
  });

  it('know the footnotes and links that are defined in others', () => {
    const filler = `${'Some words that go on. '.repeat(20)}\n\n`.repeat(60);
    const text = `See[^a] and [this][b].\n\n${filler}Again[^A].\n\n[^a]: The note.\n\n[b]: https://a.example\n`;
    expect(slices(text).length).toBeGreaterThan(1);
    const { children, notes } = read(text);
    expect(children[0]).toMatchObject({ children: [{}, { type: 'footnoteReference' }, {}, { type: 'link' }, {}] });
    expect(notes).toMatchObject([{ number: 1, refs: 2 }]);
    expect(children.map((node) => text.slice(rangeOf(node).from, rangeOf(node).to)).join('')).not.toContain('***');
  });
});

/**
 * Texts of a length, made to be slow: each repeats something that opens, nearly matches, or is searched for in vain.
 */
const HOSTILE: Record<string, (length: number) => string> = {
  'a table delimiter that never ends': (n) => `a|b\n|${'-'.repeat(n)}x`,
  'a table delimiter of dashes, then spaces': (n) => `a|b\n|${'-'.repeat(n / 2)}${' '.repeat(n / 2)}x`,
  'a table delimiter of mixed marks': (n) => `a|b\n${':|- '.repeat(n / 4)}x`,
  'a delimiter without a dash': (n) => `a|b\n${'| '.repeat(n / 2)}x`,
  'a table of many cells': (n) => `${'|a'.repeat(n / 4)}\n${'|-'.repeat(n / 4)}`,
  'a table of many rows': (n) => `a|b\n-|-\n${'x|y\n'.repeat(n / 4)}`,
  'heads of tables without a table': (n) => 'a|b\n'.repeat(n / 4),
  'spaces inside a heading': (n) => `# a${' '.repeat(n)}b`,
  'marks and spaces inside a heading': (n) => `# ${'a # '.repeat(n / 4)}b`,
  'a rule that is none': (n) => `${'- '.repeat(n / 2)}x`,
  'a rule with wide gaps that is none': (n) => `-${' '.repeat(n / 2)}-${' '.repeat(n / 2)}x`,
  'stars of a rule that is none': (n) => `${'*\t'.repeat(n / 2)}_`,
  'a list item with a line separator': (n) => `- ${' '.repeat(n)}a\u2028b`,
  'a deep indentation': (n) => `- a\n${' '.repeat(n)}x\n${' '.repeat(n)}- y`,
  'items that go deeper': (n) => Array.from({ length: Math.sqrt(n) }, (_, i) => `${' '.repeat(i)}- x`).join('\n'),
  'items in one line': (n) => '- '.repeat(n / 2),
  'items of two kinds in turn': (n) => '- a\n1. b\n'.repeat(n / 9),
  'blank lines in a list': (n) => `- a\n${'\n'.repeat(n)}`,
  'blank lines between items': (n) => '- a\n\n'.repeat(n / 5),
  'many closed code blocks': (n) => '```\na\n```\n'.repeat(n / 10),
  'fences of many lengths': (n) => Array.from({ length: Math.sqrt(n) }, (_, i) => `${'`'.repeat(i + 3)}\n`).join(''),
  'quotes in quotes': (n) => '>'.repeat(n),
  'quotes of many lines': (n) => '> > > a\n'.repeat(n / 8),
  'backticks alone': (n) => '`'.repeat(n),
  'runs of backticks of every length': (n) =>
    Array.from({ length: Math.sqrt(2 * n) }, (_, i) => `${'`'.repeat(i + 1)} `).join(''),
  'single and double backticks': (n) => '` `` '.repeat(n / 5),
  'stars alone': (n) => '*'.repeat(n),
  'stars before words': (n) => ' *a'.repeat(n / 3),
  'double stars before words': (n) => `${'**a *b '.repeat(n / 7)}\n`,
  'stars on lines of their own': (n) => '*a\n'.repeat(n / 3),
  'double stars on lines of their own': (n) => '**a\n'.repeat(n / 4),
  'underscores alone': (n) => '_'.repeat(n),
  'underscores in words': (n) => 'a_b'.repeat(n / 3),
  'underscores before words': (n) => ' _a'.repeat(n / 3),
  'double underscores before words': (n) => ' __a_b'.repeat(n / 6),
  'emphasis in emphasis': (n) => '*_'.repeat(n / 2) + 'a' + '_*'.repeat(n / 2),
  'strong in strong': (n) => '**__'.repeat(n / 4) + 'a' + '__**'.repeat(n / 4),
  'brackets alone': (n) => '['.repeat(n),
  'brackets closed far away': (n) => `${'['.repeat(n)}]`,
  'links without an end': (n) => '[a](b'.repeat(n / 5),
  'empty links': (n) => '[]('.repeat(n / 3),
  'links in links': (n) => `${'['.repeat(n / 2)}${'](https://a)'.repeat(n / 24)}`,
  'addresses without an end': (n) => 'https://'.repeat(n / 8),
  'addresses of nothing': (n) => 'https:// '.repeat(n / 9),
  'references to one footnote': (n) => `${'[^a]'.repeat(n / 4)}\n\n[^a]: b`,
  'references to no footnote': (n) => '[^a] '.repeat(n / 5),
  'references without an end': (n) => '[^'.repeat(n / 2),
  'references of many labels': (n) => Array.from({ length: n / 8 }, (_, i) => `[^${i}]`).join(''),
  'footnotes without a reference': (n) => Array.from({ length: n / 12 }, (_, i) => `[^${i}]: b`).join('\n'),
  'footnotes with one label': (n) => '[^a]: [^a]\n'.repeat(n / 11),
  'footnotes that refer to the next one': (n) =>
    `[^0]\n${Array.from({ length: n / 16 }, (_, i) => `[^${i}]: [^${i + 1}]`).join('\n')}`,
  'a footnote in a footnote': (n) => '[^a]: '.repeat(n / 6),
  'a footnote of many lines': (n) => `[^a]: b\n${'    c\n'.repeat(n / 6)}`,
  'a footnote of lines that follow at once': (n) => `[^a]: b\n${'c\n'.repeat(n / 2)}`,
  'footnotes that a line ends': (n) => '[^a]: b\n- c\n'.repeat(n / 12),
  'a footnote of lines and blank lines': (n) => `[^a]: b\n${'\n  c\n'.repeat(n / 5)}`,
  'a footnote of quotation marks': (n) => `[^a]: 69f7be3e-da1c-56c7-a447-a2d0d9542169 ${'"'.repeat(n)}`,
  'a footnote whose document is followed by marks': (n) =>
    `[^a]: 69f7be3e-da1c-56c7-a447-a2d0d9542169${': -'.repeat(n / 3)}`,
  'a label that never ends': (n) => `[^${'a'.repeat(n)}`,
  'one long word': (n) => 'a'.repeat(n),
  'one long space': (n) => ' '.repeat(n),
};

describe('hostile markdown', () => {
  const SIZES = [16_000, 64_000, 256_000, 1_024_000];
  /** A slice costs so much for each character at most; most of it is spent once for each line. */
  const MOST_NS = 3_000;

  /** Processor time, so other programs on the machine do not count; the best of some tries. */
  const perCharacter = (text: string): number => {
    const times = Array.from({ length: 2 }, () => {
      const before = process.cpuUsage();
      slices(text);
      const { user, system } = process.cpuUsage(before);
      return ((user + system) * 1000) / text.length;
    });
    return Math.min(...times);
  };

  // The parser itself takes more than linear time: it has a deadline, which e2e/answer.test.ts tests.
  it.each(Object.entries(HOSTILE))('is cut into slices of a bounded length, in linear time: %s', (_, make) => {
    for (const size of SIZES) {
      const text = make(size);
      expect(perCharacter(text)).toBeLessThan(MOST_NS);
      const found = slices(text);
      expect(found.map((slice) => slice.text).join('') === text).toBe(true);
      for (const slice of found) expect(slice.text.length + slice.before.length).toBeLessThanOrEqual(64_000);
    }
  });
});
