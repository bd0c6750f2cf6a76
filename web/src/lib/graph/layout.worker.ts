import { best, tidy, type Layout, type Size } from './tidy';

export interface LayoutRequest {
  parents: Int32Array;
  /** Column and row within its family of each node that has them, else -1; empty if none has. */
  cells: Int32Array;
  /** 1 for each node that stands below the name of its band. */
  breaks: Uint8Array;
  /** The room to fill, or the most columns of a family to keep. */
  room: Size | number;
}

export interface LayoutReply extends Layout {
  /** Milliseconds that the layout took in the worker. */
  ms: number;
}

addEventListener('message', ({ data: { parents, cells, breaks, room } }: MessageEvent<LayoutRequest>) => {
  const startedAt = performance.now();
  const given = cells.length > 0 ? cells : undefined;
  const layout = typeof room === 'number' ? tidy(parents, room, given, breaks) : best(parents, room, given, breaks);
  const reply: LayoutReply = { ...layout, ms: performance.now() - startedAt };
  postMessage(reply, { transfer: [layout.ys.buffer, layout.columns.buffer, layout.grids.buffer] });
});
