// Loopback ports for servers that start later, or again. Taken as the tests in Rust take theirs (crates/testkit/src/ports.rs).

import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { createServer, type Server } from 'node:net';

// Below what the system hands out by itself: a port from there could become the local end of anybody's connection while its
// server is down.
const FIRST = 10_000;
const COUNT = 20_000;
const TRIES = 200;

/** A TCP port on which nobody listens, and that nobody else who asks so is given until it is released. */
export class Port {
  // The UDP port of the same number, bound meanwhile, says that it is taken.
  readonly #claim: Socket;

  private constructor(
    readonly number: number,
    claim: Socket,
  ) {
    this.#claim = claim;
  }

  static async claim(): Promise<Port> {
    for (let i = 0; i < TRIES; i++) {
      const number = FIRST + Math.floor(Math.random() * COUNT);
      const claim = createSocket('udp4').unref();
      claim.bind({ port: number, address: '127.0.0.1', exclusive: true });
      if ((await listens(claim)) && (await isFree(number))) return new Port(number, claim);
      claim.close();
    }
    throw new Error(`hardly any loopback port from ${FIRST} to ${FIRST + COUNT} is free`);
  }

  release(): void {
    this.#claim.close();
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen(port, '127.0.0.1');
  if (!(await listens(server))) return false;
  await new Promise((resolve) => server.close(resolve));
  return true;
}

/** False when somebody else has the port. */
function listens(server: Socket | Server): Promise<boolean> {
  return once(server, 'listening').then(
    () => true,
    () => false,
  );
}
