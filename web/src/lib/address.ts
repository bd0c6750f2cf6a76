// The address of a page.

/** A path with parameters; those that are empty or not given are left out. */
export function address(path: string, params: Record<string, string | number | bigint | undefined>): string {
  const given = Object.entries(params).filter(([, value]) => value !== undefined && value !== '');
  const query = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return query === '' ? path : `${path}?${query}`;
}
