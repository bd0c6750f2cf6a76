// A certificate for a server of the tests.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface Certificate {
  key: Buffer;
  cert: Buffer;
}

/** Self-signed, for `name` and 127.0.0.1, valid for two days. */
export function certificate(name: string): Certificate {
  const folder = mkdtempSync(join(tmpdir(), 'tree-agent-tls-'));
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
  const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
  const says = [
    '-subj',
    `/CN=${name}`,
    '-addext',
    `subjectAltName=DNS:${name},IP:127.0.0.1`,
    '-addext',
    'basicConstraints=critical,CA:FALSE',
  ];
  try {
    execFileSync('openssl', ['req', '-x509', ...kind, ...says, '-keyout', key, '-out', cert], { stdio: 'ignore' });
    return { key: readFileSync(key), cert: readFileSync(cert) };
  } finally {
    rmSync(folder, { recursive: true });
  }
}
