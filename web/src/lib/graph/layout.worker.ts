import { tidy } from './tidy';

export interface LayoutRequest {
  id: number;
  parents: Int32Array;
}

export interface LayoutReply {
  id: number;
  ys: Float64Array;
  /** Milliseconds that the layout took in the worker. */
  ms: number;
}

addEventListener('message', ({ data }: MessageEvent<LayoutRequest>) => {
  const startedAt = performance.now();
  const ys = tidy(data.parents);
  const reply: LayoutReply = { id: data.id, ys, ms: performance.now() - startedAt };
  postMessage(reply, { transfer: [ys.buffer] });
});
