// An answer as HTML that stands alone: the elements that the page shows, without what belongs to the page.

const KEPT = new Set(
  'P STRONG EM DEL CODE BR H1 H2 H3 H4 H5 H6 PRE BLOCKQUOTE HR OL UL LI TABLE THEAD TBODY TR TH TD SUP A MARK'.split(
    ' ',
  ),
);
const STYLE = `body{max-width:680px;margin:40px auto;padding:0 16px;font:16px/1.65 system-ui,sans-serif;color:#171b26}
table{border-collapse:collapse}th,td{padding:6px 10px;border:1px solid #dde1ea;text-align:start;vertical-align:top}
pre{padding:12px;background:#f1f3f8;white-space:pre-wrap}code{font-family:ui-monospace,monospace;font-size:.9em}
blockquote{margin:0;padding-inline-start:16px;border-inline-start:3px solid #b9c0cf}mark{background:#fef3dc}`;

const escaped = (text: string): string => text.replace(/[&<>"]/g, (char) => `&#${char.charCodeAt(0)};`);

/** The elements below one, with no attributes but addresses. */
function inner(node: Node): string {
  let out = '';
  for (const child of node.childNodes) {
    if (child.nodeType === Node.TEXT_NODE) out += escaped(child.textContent ?? '');
    if (!(child instanceof HTMLElement) || child.classList.contains('sr')) continue;
    const name = child.tagName.toLowerCase();
    const cite = child.dataset.cite !== undefined;
    if (cite) out += `<sup>[${escaped(child.textContent ?? '')}]</sup>`;
    else if (!KEPT.has(child.tagName)) out += inner(child);
    else if (name === 'br' || name === 'hr') out += `<${name}>`;
    else {
      const href = /^https?:|^mailto:/.test(child.getAttribute('href') ?? '')
        ? ` href="${escaped(child.getAttribute('href')!)}"`
        : '';
      const start = child instanceof HTMLOListElement && child.start !== 1 ? ` start="${child.start}"` : '';
      out += `<${name}${href}${start}>${inner(child)}</${name}>`;
    }
  }
  return out;
}

/** The answer as a fragment, with the names of its sources. */
export function fragment(title: string, element: HTMLElement, sources: readonly string[]): string {
  const list = sources.map((one) => `<li>${escaped(one)}</li>`).join('');
  return `<h1>${escaped(title)}</h1>${inner(element)}${list === '' ? '' : `<h2>Sources</h2><ul>${list}</ul>`}`;
}

export const page = (title: string, body: string): string =>
  `<!doctype html><meta charset="utf-8"><title>${escaped(title)}</title><style>${STYLE}</style><body dir="auto">${body}</body>`;

/** Saves a text as a file of the user. */
export function download(name: string, type: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}

/** A name for a file: the first words of the question. */
export const fileName = (title: string): string =>
  title
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, '-')
    .replace(/^-|-$/g, '')
    .slice(0, 60) || 'answer';
