/** Moves within a document; the address stays that of the page. */
export function jump(event: MouseEvent, id: string, block: ScrollLogicalPosition = 'center'): void {
  event.preventDefault();
  const to = document.getElementById(id);
  to?.scrollIntoView({ block });
  to?.focus({ preventScroll: true });
}
