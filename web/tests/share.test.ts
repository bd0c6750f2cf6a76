import { execFileSync } from 'node:child_process';
import { beforeEach, describe, expect, it, vi } from 'vitest';

/** What the page would have: its address, and the token that the tab keeps. */
async function page(address: string, token = ''): Promise<typeof import('../src/lib/share')> {
  const { origin, protocol, hostname, port } = new URL(address);
  vi.resetModules();
  vi.stubGlobal('location', { origin, protocol, hostname, port });
  vi.stubGlobal('sessionStorage', { getItem: () => token });
  return import('../src/lib/share');
}

/** The words that a shell makes of a line. */
function words(line: string, env: Record<string, string> = {}): string[] {
  const out = execFileSync(
    'sh',
    ['-c', `set -f; ${line.split(' ')[0]} () { printf '%s\\0' "$@"; }; ${line}`.replaceAll('tree-agent', 'tree_agent')],
    { env, encoding: 'utf8' },
  );
  return out.split('\0').slice(0, -1);
}

beforeEach(() => void vi.unstubAllGlobals());

describe('a copied grpcurl line', () => {
  it.each([
    ['http://127.0.0.1:7400', ['-plaintext'], '127.0.0.1:7400'],
    ['http://[::1]:7400', ['-plaintext'], '[::1]:7400'],
    ['http://trees.example', ['-plaintext'], 'trees.example:80'],
    ['https://trees.example', [], 'trees.example:443'],
  ])('calls the gateway that the page came from: %s', async (address, flags, target) => {
    const { grpcurl } = await page(address);
    const line = grpcurl('RunService/GetRun', { runId: `it's "x" $HOME` });
    expect(words(line)).toEqual([
      ...flags,
      '-d',
      `{"runId":"it's \\"x\\" $HOME"}`,
      target,
      'treeagent.v1.RunService/GetRun',
    ]);
  });

  it('reads the token from a file and does not hold it', async () => {
    const { grpcurl } = await page('http://127.0.0.1:7400', 'a-secret');
    const line = grpcurl('RunService/GetRun', { runId: 'x' });
    expect(line).toContain('-H "authorization: Bearer $(cat "$TREE_AGENT_TOKEN_FILE")" ');
    expect(line).not.toContain('a-secret');
  });
});

describe('a copied command', () => {
  it.each(['http://127.0.0.1:7400', 'http://[::1]:7400', 'https://trees.example', 'https://trees.example:8443'])(
    'names the server %s',
    async (address) => {
      const { commandLine } = await page(address);
      expect(words(commandLine('events', 'r', '--node', `it's *`))).toEqual([
        'events',
        'r',
        '--node',
        `it's *`,
        '--server',
        address,
      ]);
    },
  );

  it.each([
    ['http://127.0.0.1:7400', []],
    ['http://localhost:7400', []],
    ['http://[::1]:7400', []],
    ['https://trees.example', []],
    // Only this one sends the token in clear to another machine.
    ['http://trees.example', ['--allow-plaintext-token']],
    ['http://127.example:7400', ['--allow-plaintext-token']],
  ])('reads the token of a signed-in user from a file: %s', async (address, flags) => {
    const { commandLine } = await page(address, 'a-secret');
    const line = commandLine('watch', 'r');
    expect(words(line, { TREE_AGENT_TOKEN_FILE: '/my files/token' })).toEqual([
      'watch',
      'r',
      '--server',
      address,
      '--token-file',
      '/my files/token',
      ...flags,
    ]);
    expect(line).not.toContain('a-secret');
  });
});
