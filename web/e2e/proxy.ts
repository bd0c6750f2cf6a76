// A TCP proxy in front of a gateway.

import { connect, createServer as createTcpServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { certificate, type Certificate } from './certificate';

export class Proxy {
  readonly #sockets = new Set<Socket>();
  readonly #scheme: string;
  readonly #certificate: Certificate | undefined;
  #server: Server | undefined;
  url = '';

  /** With `https` it shows a certificate for localhost and offers HTTP/2, which browsers use over TLS only. */
  constructor(scheme: 'http' | 'https' = 'http') {
    this.#scheme = scheme;
    if (scheme === 'https') this.#certificate = certificate('localhost');
  }

  /** The certificate in PEM. */
  get cert(): Buffer {
    if (this.#certificate === undefined) throw new Error('there is no certificate without https');
    return this.#certificate.cert;
  }

  async listen(to: string): Promise<void> {
    const { hostname, port } = new URL(to);
    const forward = (socket: Socket): void => {
      const upstream = connect(Number(port), hostname);
      for (const [from, other] of [
        [socket, upstream],
        [upstream, socket],
      ] as const) {
        this.#sockets.add(from);
        from.pipe(other);
        from.on('error', () => other.destroy());
        from.on('close', () => (this.#sockets.delete(from), other.destroy()));
      }
    };
    const server = this.#certificate
      ? createTlsServer({ ...this.#certificate, ALPNProtocols: ['h2'] }, forward)
      : createTcpServer(forward);
    this.#server = server;
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    this.url = `${this.#scheme}://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`;
  }

  /** Ends every connection at once, without a word. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  close(): void {
    this.cut();
    this.#server?.close();
  }
}
