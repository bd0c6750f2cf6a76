// What belongs to this tab: it survives a reload, and a full or forbidden storage costs no more than that.

export function load<T>(key: string): T | undefined {
  try {
    const text = sessionStorage.getItem(`tree-agent.${key}`);
    return text === null ? undefined : (JSON.parse(text) as T);
  } catch {
    return undefined;
  }
}

export function save(key: string, value: unknown): void {
  try {
    sessionStorage.setItem(`tree-agent.${key}`, JSON.stringify(value));
  } catch {
    // The view still works; only a reload begins anew.
  }
}
