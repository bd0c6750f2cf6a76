import { describe, expect, it } from 'vitest';
import { markdown } from '../src/lib/markdown';

describe('markdown', () => {
  it('reads what agents write', () => {
    const tree = markdown('# Title\n\nSome **bold** and `code`.\n\n- one\n- two\n  - inner\n\n1. first\n2. second\n\n> said\n\n```rust\nfn main() {}\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n---');
    expect(tree.map((b) => b.kind)).toEqual(['heading', 'paragraph', 'list', 'list', 'quote', 'code', 'table', 'rule']);
    expect(tree[2]).toMatchObject({ ordered: false, items: [[{ kind: 'paragraph' }], [{ kind: 'paragraph' }, { kind: 'list' }]] });
    expect(tree[5]).toEqual({ kind: 'code', lang: 'rust', text: 'fn main() {}' });
    expect(tree[6]).toMatchObject({ head: [[{ text: 'a' }], [{ text: 'b' }]], rows: [[[{ text: '1' }], [{ text: '2' }]]] });
  });

  it('keeps HTML as text and makes no link that could run', () => {
    const text = '<script>alert(1)</script> <img src=x onerror=alert(1)> [go](javascript:alert(1)) [ok](https://a.example/b)';
    const [paragraph] = markdown(text);
    const said = JSON.stringify(paragraph);
    expect(said).toContain('<script>alert(1)</script>');
    expect(said).toContain('[go](javascript:alert(1)');
    expect(said.match(/"href":"([^"]*)"/g)).toEqual(['"href":"https://a.example/b"']);
  });

  it('ends on what is unfinished or hostile', () => {
    expect(markdown('```\nnever closed').at(0)).toMatchObject({ kind: 'code', text: 'never closed' });
    const begun = performance.now();
    markdown('>'.repeat(2000));
    markdown(`${'- '.repeat(500)}x`);
    markdown('*'.repeat(20_000));
    markdown('`'.repeat(20_000));
    markdown('[['.repeat(5_000));
    markdown('| a '.repeat(5_000));
    expect(performance.now() - begun).toBeLessThan(2000);
  });
});
