// Wheel and pointers on a graph: they pan, zoom and choose.

import type { GraphController } from './controller';

/** A pointer that has travelled less than this has clicked. */
const STILL_PX = 4;

export class Gestures {
  dragging = $state(false);
  readonly #host: () => HTMLElement;
  readonly #controller: () => GraphController | undefined;
  readonly #choose: (event: PointerEvent) => void;
  readonly #pointers = new Map<number, { x: number; y: number }>();
  #travelled = 0;

  constructor(
    host: () => HTMLElement,
    controller: () => GraphController | undefined,
    choose: (event: PointerEvent) => void,
  ) {
    this.#host = host;
    this.#controller = controller;
    this.#choose = choose;
  }

  readonly wheel = (event: WheelEvent): void => {
    event.preventDefault();
    const box = this.#host().getBoundingClientRect();
    if (event.ctrlKey || event.metaKey || Math.abs(event.deltaY) >= Math.abs(event.deltaX) * 2) {
      const step = event.deltaMode === 1 ? 18 : 1;
      this.#controller()?.zoom(
        Math.exp(-event.deltaY * step * 0.0018),
        event.clientX - box.left,
        event.clientY - box.top,
      );
    } else this.#controller()?.pan(-event.deltaX, 0);
  };

  readonly down = (event: PointerEvent): void => {
    if ((event.target as Element).closest('button') !== null) return;
    this.#host().setPointerCapture(event.pointerId);
    this.#pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (this.#pointers.size === 1) this.#travelled = 0;
  };

  readonly move = (event: PointerEvent): void => {
    const before = this.#pointers.get(event.pointerId);
    if (before === undefined) return;
    const now = { x: event.clientX, y: event.clientY };
    const other = [...this.#pointers].find(([id]) => id !== event.pointerId)?.[1];
    this.#pointers.set(event.pointerId, now);
    this.#travelled += Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
    if (this.#travelled < STILL_PX) return;
    this.dragging = true;
    if (other === undefined) this.#controller()?.pan(now.x - before.x, now.y - before.y);
    else {
      const box = this.#host().getBoundingClientRect();
      const apart = (p: { x: number; y: number }): number => Math.hypot(p.x - other.x, p.y - other.y);
      const middle = { x: (now.x + other.x) / 2 - box.left, y: (now.y + other.y) / 2 - box.top };
      this.#controller()?.zoom(apart(now) / Math.max(1, apart(before)), middle.x, middle.y);
    }
  };

  readonly up = (event: PointerEvent): void => {
    if (!this.#pointers.delete(event.pointerId) || this.#pointers.size > 0) return;
    if (!this.dragging) this.#choose(event);
    this.dragging = false;
  };
}
