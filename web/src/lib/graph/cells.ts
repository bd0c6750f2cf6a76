// Homework as a grid: a column for each iteration, rows for each branch.

import type { Projection } from '../projection/projection';

/** The rows that a branch needs, and the tasks of each of its iterations so far. */
interface Branch {
  rows: number;
  tasks: Map<number, number>;
}

/**
 * Column and row of each of some nodes within its family, two numbers each, -1 for a node that is no task of homework.
 * Empty if none is one. `asked` are positions of nodes in order of creation.
 */
export function cellsOf({ nodes, shape }: Projection, asked: Int32Array): Int32Array {
  if (!asked.some((at) => nodes[at]!.task !== undefined)) return new Int32Array(0);
  const cells = new Int32Array(2 * asked.length).fill(-1);
  const families = new Map<number, Map<string, Branch>>();
  const places: { slot: number; branch: Branch; nth: number }[] = [];
  for (const [slot, at] of asked.entries()) {
    const { task } = nodes[at]!;
    if (task === undefined) continue;
    const parent = shape.parents[at]!;
    let branches = families.get(parent);
    if (branches === undefined) families.set(parent, (branches = new Map()));
    let branch = branches.get(task.branchId);
    if (branch === undefined) branches.set(task.branchId, (branch = { rows: 0, tasks: new Map() }));
    const nth = branch.tasks.get(task.iteration) ?? 0;
    branch.tasks.set(task.iteration, nth + 1);
    branch.rows = Math.max(branch.rows, nth + 1);
    cells[2 * slot] = Math.max(0, task.iteration - 1);
    places.push({ slot, branch, nth });
  }
  const begins = new Map<Branch, number>();
  for (const branches of families.values()) {
    let row = 0;
    for (const branch of branches.values()) {
      begins.set(branch, row);
      row += branch.rows;
    }
  }
  for (const { slot, branch, nth } of places) cells[2 * slot + 1] = begins.get(branch)! + nth;
  return cells;
}
