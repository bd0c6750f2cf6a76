// What stands before a gateway in earnest: a door that speaks HTTPS with HTTP/2 and hands everything on.

import { request as forward } from 'node:http';
import { constants, createSecureServer, type Http2SecureServer } from 'node:http2';
import { certificate } from './certificate';

export class TlsDoor {
  #server: Http2SecureServer | undefined;
  url = '';

  async listen(to: string): Promise<void> {
    this.#server = createSecureServer(certificate('localhost'), (request, response) => {
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
