// Ids for requests that create something.

/** A random UUID of version 4. `crypto.randomUUID` is missing on pages that are neither HTTPS nor localhost. */
export function randomUuid(): string {
  if (typeof crypto.randomUUID === 'function') return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6]! & 0x0f) | 0x40;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}

/**
 * The request ids of one form. The same content always has the same id, so the server recognises a request that is sent
 * again because its answer was lost. Other content has another id.
 */
export class RequestIds {
  readonly #ids = new Map<string, string>();

  for(content: unknown): string {
    const key = JSON.stringify(content, (_, value: unknown) => (typeof value === 'bigint' ? `${value}n` : value));
    let id = this.#ids.get(key);
    if (id === undefined) this.#ids.set(key, (id = randomUuid()));
    return id;
  }
}
