// Checks the Markdown documents. What they name exists: linked files and headings, paths in code, make targets, tests,
// metrics and TREE_AGENT_* variables. Their prose is readable: short sentences, and lines that fit an editor.
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { variablesInCode } from './variables.mjs';

const tracked = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], { encoding: 'utf8' })
  .split('\n')
  .filter((file) => file && existsSync(file));
const folders = new Set(
  tracked.flatMap((file) => {
    const parts = file.split('/');
    return parts.slice(1).map((_, i) => parts.slice(0, i + 1).join('/'));
  }),
);
const roots = new Set([...folders].filter((folder) => !folder.includes('/')));
const known = (path) => tracked.includes(path) || folders.has(path);
const targets = new Set([...readFileSync('Makefile', 'utf8').matchAll(/^([a-z-]+):/gm)].map((m) => m[1]));
const variables = variablesInCode();

// Names of tests and other functions: a document that names the proof of a promise must name a test that exists.
const functions = new Set(
  execFileSync('git', ['grep', '--untracked', '-hoE', '\\bfn [a-z0-9_]+', '--', '*.rs'], { encoding: 'utf8' })
    .split('\n')
    .filter(Boolean)
    .map((line) => line.slice(3)),
);
const exists = (name) =>
  name.endsWith('…') ? [...functions].some((f) => f.startsWith(name.slice(0, -1))) : functions.has(name);
// Names of metrics, as they are registered.
const metrics = new Set(
  execFileSync('git', ['grep', '--untracked', '-hoE', '"(tree_agent|process)_[a-z_]+"', '--', '*.rs'], {
    encoding: 'utf8',
  })
    .split('\n')
    .filter(Boolean)
    .map((line) => line.slice(1, -1)),
);

const SENTENCE_WORDS = 40;
const LINE_COLUMNS = 120;
// Written by scripts, with lines of any length.
const generated = new Set(['docs/benchmarks.md', 'docs/evaluation.md']);

/** The anchors that GitHub makes of the headings of a document. */
const anchorsOf = (text) => {
  const headings = text.replace(/^```.*?^```/gms, '').matchAll(/^#+ +(.*)$/gm);
  return new Set(
    [...headings].map((m) =>
      m[1]
        .toLowerCase()
        .replace(/[^\p{L}\p{N}\s_-]/gu, '')
        .trim()
        .replace(/\s/g, '-'),
    ),
  );
};

/** The sentences of a document's paragraphs and lists, each with the index of its block. Tables and code have none. */
function* sentencesOf(prose) {
  for (const block of prose.matchAll(/(?:^(?!#|\||!\[)[^\n]*\S[^\n]*\n)+/gm)) {
    for (const item of block[0].split(/^\s*(?:[-*]|\d+\.) /m)) {
      const words = item.replace(/`[^`]*`/g, 'code').replace(/\]\([^)]*\)/g, ']');
      for (const sentence of words.split(/[.!?…:](?:[)*]*\s|$)/)) yield [block.index, sentence.trim()];
    }
  }
}

const problems = [];
// Fixtures and test data may contain anything.
const documents = tracked.filter((file) => file.endsWith('.md') && !/(^|\/)(tests|testdata|fixtures)\//.test(file));
for (const document of documents) {
  const text = readFileSync(document, 'utf8');
  const lineOf = (index) => text.slice(0, index).split('\n').length;
  const problem = (index, message) => problems.push(`${document}:${lineOf(index)}: ${message}`);

  const prose = text.replace(/^```.*?^```/gms, (block) => block.replace(/[^\n]/g, ' '));
  for (const m of prose.matchAll(/\]\(([^)\s]+)\)/g)) {
    const target = m[1].split('#')[0];
    if (!target || /^[a-z]+:/.test(target)) continue;
    const path = normalize(join(dirname(document), target)).replace(/\/$/, '');
    if (path !== '.' && !known(path)) problem(m.index, `links to ${target}, which does not exist`);
  }
  for (const m of prose.matchAll(/\]\(([^)\s#]*)#([^)\s]+)\)/g)) {
    const path = m[1] ? normalize(join(dirname(document), m[1])) : document;
    if (/^[a-z]+:/.test(m[1]) || !path.endsWith('.md') || !known(path)) continue;
    if (!anchorsOf(readFileSync(path, 'utf8')).has(m[2]))
      problem(m.index, `links to ${path}#${m[2]}, which is not a heading`);
  }
  for (const [index, sentence] of sentencesOf(prose)) {
    const words = sentence.split(/\s+/).length;
    if (words > SENTENCE_WORDS) problem(index, `has a sentence of ${words} words: ${sentence.slice(0, 60)}…`);
  }
  for (const m of prose.matchAll(/^(?!\|).*$/gm)) {
    const columns = [...m[0].trimEnd()].length;
    if (columns > LINE_COLUMNS && !generated.has(document)) problem(m.index, `has a line of ${columns} columns`);
  }
  // Paths in `code` are checked if they begin with a folder of this repository, except placeholders and build output.
  for (const m of prose.matchAll(/`([^`\n]+)`/g)) {
    for (const word of m[1].split(/[\s:,;()]+/)) {
      const path = word.replace(/^\.\//, '').replace(/[/.]+$/, '');
      if (!path.includes('/') || !roots.has(path.split('/')[0])) continue;
      if (/[<>*{}…$]|NAME/.test(path) || /(^|\/)(dist|node_modules)(\/|$)/.test(path)) continue;
      const near = [path, join(dirname(document), path)];
      if (!near.some(known)) problem(m.index, `names ${path}, which does not exist`);
    }
  }
  for (const m of prose.matchAll(/`([a-z][a-z0-9]*(?:_[a-z0-9]+){3,}|f[0-9]{2}_[a-z0-9_]*…)`/g)) {
    if (metrics.has(m[1].replace(/_total$/, ''))) continue;
    if (!exists(m[1])) problem(m.index, `names ${m[1]}, which is not a function`);
  }
  const code = [...text.matchAll(/`([^`\n]+)`/g), ...text.matchAll(/^```.*?\n(.*?)^```/gms)];
  for (const block of code) {
    for (const m of block[1].matchAll(/(?:^|[;&|(]\s*)make ((?:[A-Za-z_-]+=\S*\s+)*)([a-z-]+)/gm)) {
      if (!targets.has(m[2])) problem(block.index, `names make ${m[2]}, which is not a target`);
    }
  }
  for (const m of text.matchAll(/\bTREE_AGENT_[A-Z_]*[A-Z]\b/g)) {
    if (!variables.has(m[0])) problem(m.index, `names ${m[0]}, which nothing reads`);
  }
}
for (const line of problems) console.error(line);
console.log(`${documents.length} documents checked`);
process.exitCode = problems.length ? 1 : 0;
