// State of this tab that survives a reload, or of this browser. If the storage is full or forbidden, it is only not
// kept.

type Store = 'sessionStorage' | 'localStorage';

export function load<T>(key: string, from: Store = 'sessionStorage'): T | undefined {
  try {
    const text = globalThis[from].getItem(`tree-agent.${key}`);
    return text === null ? undefined : ((JSON.parse(text) as T | null) ?? undefined);
  } catch {
    return undefined;
  }
}

export function save(key: string, value: unknown, to: Store = 'sessionStorage'): void {
  try {
    globalThis[to].setItem(`tree-agent.${key}`, JSON.stringify(value));
  } catch {
    // The page still works; a reload just starts from the defaults.
  }
}
