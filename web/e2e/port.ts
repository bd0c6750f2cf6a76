// Loopback ports for servers that start later, or again. Claimed as in crates/testkit/src/ports.rs.

import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { createServer, type Server } from 'node:net';

// Below the ephemeral ports: one of those could become the local end of some connection while its
// server is down.
const FIRST = 10_000;
const COUNT = 20_000;
const TRIES = 200;

/** A free TCP port that no other test claims until it is released. */
export class Port {
  // Bound while the port is claimed: the UDP port of the same number.
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

/** False when the port is in use. */
function listens(server: Socket | Server): Promise<boolean> {
  return once(server, 'listening').then(
    () => true,
    () => false,
  );
}
