// State of this tab that survives a reload. If the storage is full or forbidden, it is only not kept.

export function load<T>(key: string): T | undefined {
  try {
    const text = sessionStorage.getItem(`tree-agent.${key}`);
    return text === null ? undefined : ((JSON.parse(text) as T | null) ?? undefined);
  } catch {
    return undefined;
  }
}

export function save(key: string, value: unknown): void {
  try {
    sessionStorage.setItem(`tree-agent.${key}`, JSON.stringify(value));
  } catch {
    // The page still works; a reload just starts from the defaults.
  }
}
