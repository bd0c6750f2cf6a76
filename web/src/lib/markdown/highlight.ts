// Code in pieces that have colours.

import type { Root, RootContent } from 'hast';
import { common, createLowlight } from 'lowlight';

const lowlight = createLowlight(common);
/** Longer code has no colours. */
const MOST = 20_000;

/** Undefined for a language that it does not know. */
export function highlight(text: string, lang: string): [kind: string, text: string][] | undefined {
  if (text.length > MOST || !lowlight.registered(lang)) return undefined;
  const tokens: [string, string][] = [];
  const visit = (node: Root | RootContent, kind: string): void => {
    if (node.type === 'text') tokens.push([kind, node.value]);
    if (!('children' in node)) return;
    const names = node.type === 'element' ? (node.properties['className'] as string[] | undefined) : undefined;
    const own = names?.[0]?.replace(/^hljs-/, '') ?? kind;
    node.children.forEach((child) => visit(child, own));
  };
  visit(lowlight.highlight(lang, text), '');
  return tokens;
}
