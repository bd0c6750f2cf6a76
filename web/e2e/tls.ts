// What stands before a gateway in earnest: a door that speaks HTTPS with HTTP/2 and hands everything on.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { request as forward } from 'node:http';
import { constants, createSecureServer, type Http2SecureServer } from 'node:http2';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export class TlsDoor {
  #server: Http2SecureServer | undefined;
  url = '';

  async listen(to: string): Promise<void> {
    const folder = mkdtempSync(join(tmpdir(), 'tree-agent-tls-'));
    const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
    execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2', '-subj', '/CN=127.0.0.1', '-keyout', key, '-out', cert], { stdio: 'ignore' });
    this.#server = createSecureServer({ key: readFileSync(key), cert: readFileSync(cert) }, (request, response) => {
      const headers = Object.fromEntries(Object.entries(request.headers).filter(([name]) => !name.startsWith(':')));
      const onward = forward(to + request.url, { method: request.method, headers: { ...headers, host: new URL(to).host } }, (answer) => {
        const { connection: _, 'transfer-encoding': __, 'keep-alive': ___, ...rest } = answer.headers;
        response.writeHead(answer.statusCode ?? 502, rest);
        answer.pipe(response.stream);
        // A gateway that dies in the middle of an answer.
        answer.on('error', () => response.stream.close(constants.NGHTTP2_INTERNAL_ERROR));
      });
      onward.on('error', () => response.stream.destroyed || response.stream.close(constants.NGHTTP2_INTERNAL_ERROR));
      response.stream.on('close', () => onward.destroy());
      request.stream.on('error', () => onward.destroy());
      request.pipe(onward);
    });
    rmSync(folder, { recursive: true });
    await new Promise<void>((resolve) => this.#server!.listen(0, '127.0.0.1', resolve));
    const address = this.#server.address();
    this.url = `https://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`;
  }

  /** Ends with the test's process; sessions that browsers hold open would keep a close waiting. */
  close(): void {
    this.#server?.close();
    this.#server?.unref();
  }
}
