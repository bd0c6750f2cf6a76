import { beforeAll, describe, expect, it } from 'vitest';
import { markdown } from '../src/lib/markdown';

describe('markdown', () => {
  it('reads what agents write', () => {
    const tree = markdown(
      '# Title\n\nSome **bold** and `code`.\n\n- one\n- two\n  - inner\n\n1. first\n2. second\n\n> said\n\n```rust\nfn main() {}\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n---',
    );
    expect(tree.map((b) => b.kind)).toEqual(['heading', 'paragraph', 'list', 'list', 'quote', 'code', 'table', 'rule']);
    expect(tree[2]).toMatchObject({
      ordered: false,
      items: [[{ kind: 'paragraph' }], [{ kind: 'paragraph' }, { kind: 'list' }]],
    });
    expect(tree[5]).toEqual({ kind: 'code', lang: 'rust', text: 'fn main() {}' });
    expect(tree[6]).toMatchObject({
      head: [[{ text: 'a' }], [{ text: 'b' }]],
      rows: [[[{ text: '1' }], [{ text: '2' }]]],
    });
  });

  it.each([
    ['a **b *c* d** e', ['text', 'strong', 'text']],
    ['__b__ _e_ *e* snake_case_name', ['strong', 'text', 'em', 'text', 'em', 'text']],
    ['** no ** * no* 2 * 3', ['strong', 'text']],
    ['`` a ` b `` and ` open', ['code', 'text']],
    ['[label](https://a.example) https://b.example, [not] (this)', ['link', 'text', 'link', 'text']],
    ['[a branch](document:019bf6a1-0000-7000-8000-000000000001)', ['link']],
    ['*never closed __nor this [nor](this', ['text']],
    ['**never closed', ['text']],
    ['*closed on\nanother line*', ['text']],
  ])('recognises the parts of %j', (text, kinds) => {
    expect(markdown(text)).toMatchObject([{ kind: 'paragraph', children: kinds.map((kind) => ({ kind })) }]);
  });

  it('keeps the marks that belong to a heading', () => {
    expect(markdown('# About C#\n## Closed ##\n#no heading')).toMatchObject([
      { level: 1, children: [{ text: 'About C#' }] },
      { level: 2, children: [{ text: 'Closed' }] },
      { kind: 'paragraph' },
    ]);
  });

  it('keeps HTML as text and makes no link that could run', () => {
    const text =
      '<script>alert(1)</script> <img src=x onerror=alert(1)> [go](javascript:alert(1)) [ok](https://a.example/b) [x](document:1)';
    const [paragraph] = markdown(text);
    const said = JSON.stringify(paragraph);
    expect(said).toContain('<script>alert(1)</script>');
    expect(said).toContain('[go](javascript:alert(1)');
    expect(said.match(/"href":"([^"]*)"/g)).toEqual(['"href":"https://a.example/b"']);
  });

  it('shows a code block that is never closed', () => {
    expect(markdown('```\nnever closed')).toEqual([{ kind: 'code', lang: '', text: 'never closed' }]);
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
  const SIZES = [4_000, 16_000, 64_000, 256_000];
  const ORDINARY = '- Some **bold** words, `code` and [a link](https://a.example).\n';
  /**
   * A hostile character may cost so many times what a character of ordinary Markdown costs. The worst rules cost 20
   * times as much, at any size.
   */
  const GENEROUS = 100;

  /** Processor time, so other programs on the machine do not count; the best of some tries. */
  const perCharacter = (text: string, tries = 2): number => {
    const times = Array.from({ length: tries }, () => {
      const before = process.cpuUsage();
      markdown(text);
      const { user, system } = process.cpuUsage(before);
      return (user + system) / text.length;
    });
    return Math.min(...times);
  };

  let ordinary: number;
  beforeAll(() => {
    ordinary = perCharacter(ORDINARY.repeat(1_000), 10);
  });

  // Sizes grow step by step, so a rule that takes quadratic time or worse fails here before it takes minutes.
  it.each(Object.entries(HOSTILE))('costs no more for each character when there are more of them: %s', (_, make) => {
    // Once before it counts, for the compiler's sake.
    markdown(make(SIZES[0]!));
    for (const size of SIZES) expect(perCharacter(make(size))).toBeLessThan(GENEROUS * ordinary);
  });
});
