// A token issuer: an Ed25519 key, its JWKS as a file, and tokens signed with it (RFC 7519, RFC 8037).

import { generateKeyPairSync, sign } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const ISSUER = 'https://issuer.example';
const AUDIENCE = 'tree-agent';

export class Issuer {
  readonly #keys = generateKeyPairSync('ed25519');
  #folder = '';

  /**
   * Writes the JWKS. Returns the settings of a gateway that accepts the tokens, with a long-lived token of ann for
   * the command line.
   */
  async publish(): Promise<Record<string, string>> {
    this.#folder = await mkdtemp(join(tmpdir(), 'tree-agent-issuer-'));
    const file = join(this.#folder, 'jwks.json');
    const key = { ...this.#keys.publicKey.export({ format: 'jwk' }), kid: 'web', alg: 'EdDSA', use: 'sig' };
    await writeFile(file, JSON.stringify({ keys: [key] }));
    return {
      TREE_AGENT_AUTH_JWKS: file,
      TREE_AGENT_AUTH_ISSUER: ISSUER,
      TREE_AGENT_AUTH_AUDIENCE: AUDIENCE,
      TREE_AGENT_TOKEN: this.token('ann', 3600),
    };
  }

  /** A token of `sub` that expires after this many seconds. */
  token(sub: string, seconds: number): string {
    const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
    const claims = { iss: ISSUER, aud: AUDIENCE, sub, exp: Date.now() / 1000 + seconds };
    const text = `${part({ alg: 'EdDSA', typ: 'JWT', kid: 'web' })}.${part(claims)}`;
    return `${text}.${sign(null, Buffer.from(text), this.#keys.privateKey).toString('base64url')}`;
  }

  async close(): Promise<void> {
    if (this.#folder !== '') await rm(this.#folder, { recursive: true, force: true });
  }
}
