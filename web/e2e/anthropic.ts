// Stands in for Anthropic: a gateway's requests to https://api.anthropic.com go through a proxy
// on this machine, which answers them with a fake model. Prices apply to a provider's own service only, so a gateway
// with another base URL reports no costs.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { certificate } from './certificate';
import type { LanguageModel } from './language-model';

const HOST = 'api.anthropic.com';

export class AnthropicServer {
  #proxy: Server | undefined;
  #folder = '';

  /** Forwards requests to `model`. Returns the environment variables of a gateway that uses this proxy. */
  async listen(model: LanguageModel): Promise<Record<string, string>> {
    const shown = certificate(HOST);
    this.#folder = mkdtempSync(join(tmpdir(), 'tree-agent-anthropic-'));
    const trusted = join(this.#folder, 'cert.pem');
    writeFileSync(trusted, shown.cert);
    const secure = createSecureServer(shown, model.serve);
    this.#proxy = createServer((_, response) => void response.writeHead(403).end());
    this.#proxy.on('connect', (request, socket, head) => {
      // Refuse everything else.
      if (request.url !== `${HOST}:443`) return void socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
      socket.write('HTTP/1.1 200 Connection Established\r\n\r\n');
      if (head.length > 0) socket.unshift(head);
      secure.emit('connection', socket);
    });
    await new Promise<void>((resolve) => this.#proxy!.listen(0, '127.0.0.1', resolve));
    const address = this.#proxy.address();
    const proxy = `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`;
    return {
      HTTPS_PROXY: proxy,
      NO_PROXY: '127.0.0.1',
      SSL_CERT_FILE: trusted,
      SSL_CERT_DIR: this.#folder,
      ANTHROPIC_API_KEY: 'sk-test-0123456789',
      ANTHROPIC_BASE_URL: '',
    };
  }

  close(): void {
    this.#proxy?.close();
    this.#proxy?.unref();
    if (this.#folder !== '') rmSync(this.#folder, { recursive: true, force: true });
  }
}
