// Reads slices of Markdown beside the page.

import type { Nodes } from 'mdast';
import { parse } from './parse';
import type { Slice } from './slices';

self.addEventListener('message', ({ data }: MessageEvent<Slice>) => {
  void read(data).then(
    (tree) => postMessage({ tree }),
    // Too deep for the parser.
    () => postMessage({}),
  );
});
postMessage('ready');

async function read(slice: Slice): Promise<Nodes> {
  const tree = parse(slice);
  if (/```|~~~/.test(slice.text)) {
    const { highlight } = await import('./highlight');
    const visit = (node: Nodes): void => {
      const tokens = node.type === 'code' && node.lang ? highlight(node.value, node.lang.toLowerCase()) : undefined;
      if (tokens !== undefined) node.data = { ...node.data, tokens };
      if ('children' in node) node.children.forEach(visit);
    };
    visit(tree);
  }
  return tree;
}
