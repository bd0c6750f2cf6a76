// A door before a gateway that a test can slam: every connection through it ends at once, without a word.

import { connect, createServer, type Server, type Socket } from 'node:net';

export class Door {
  readonly #through = new Set<Socket>();
  #server: Server | undefined;
  url = '';

  async listen(to: string): Promise<void> {
    const { hostname, port } = new URL(to);
    this.#server = createServer((socket) => {
      const onward = connect(Number(port), hostname);
      for (const [one, other] of [[socket, onward], [onward, socket]] as const) {
        this.#through.add(one);
        one.pipe(other);
        one.on('error', () => other.destroy());
        one.on('close', () => (this.#through.delete(one), other.destroy()));
      }
    });
    await new Promise<void>((resolve) => this.#server!.listen(0, '127.0.0.1', resolve));
    const address = this.#server.address();
    this.url = `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`;
  }

  slam(): void {
    for (const socket of this.#through) socket.destroy();
  }

  close(): void {
    this.slam();
    this.#server?.close();
  }
}
