// The tree without its contents. A log only adds nodes, in one order, so one shape serves every point in time:
// the state after N events uses its first `count` nodes.

export class Shape {
  readonly ids: string[] = [];
  /** Position of the parent, -1 for the root. Always smaller than the node's own position. */
  readonly parents: number[] = [];
  readonly depths: number[] = [];
  /** Positions of the children in order of creation. */
  readonly children: number[][] = [];
  readonly #index = new Map<string, number>();

  /** Position of a node in order of creation, or -1. */
  position(id: string): number {
    return this.#index.get(id) ?? -1;
  }

  /** Adds a node, or finds it when the state of another moment has already added it. */
  add(id: string, parentId: string | undefined): number {
    const known = this.#index.get(id);
    if (known !== undefined) return known;
    const at = this.ids.length;
    const parent = parentId === undefined ? -1 : this.position(parentId);
    this.#index.set(id, at);
    this.ids.push(id);
    this.parents.push(parent);
    this.children.push([]);
    if (parent >= 0) this.children[parent]!.push(at);
    this.depths.push(parent >= 0 ? this.depths[parent]! + 1 : 0);
    return at;
  }
}
