import { beforeEach, describe, expect, it, vi } from 'vitest';

/** What the page would have: its address, and what the tab keeps. */
async function page(token: string): Promise<typeof import('../src/lib/share')> {
  vi.resetModules();
  vi.stubGlobal('location', { origin: 'http://127.0.0.1:7400', protocol: 'http:', hostname: '127.0.0.1', port: '7400' });
  vi.stubGlobal('sessionStorage', { getItem: () => token });
  return import('../src/lib/share');
}

describe('a copied grpcurl line', () => {
  beforeEach(() => void vi.unstubAllGlobals());

  it('asks the gateway that the page came from', async () => {
    const { grpcurl } = await page('');
    expect(grpcurl('RunService/GetRun', { runId: 'x' })).toBe(`grpcurl -plaintext -d '{"runId":"x"}' 127.0.0.1:7400 treeagent.v1.RunService/GetRun`);
  });

  it('names a variable for the token and does not hold it', async () => {
    const { grpcurl } = await page('a-secret');
    const line = grpcurl('RunService/GetRun', { runId: 'x' });
    expect(line).toContain('-H "authorization: Bearer $TOKEN" ');
    expect(line).not.toContain('a-secret');
  });
});
