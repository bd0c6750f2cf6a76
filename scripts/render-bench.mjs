// Renders JSON lines of benchmarks as a Markdown table: node scripts/render-bench.mjs RESULTS.jsonl OUT.md
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';
import { dirname } from 'node:path';

const [source, target] = process.argv.slice(2);
const rows = readFileSync(source, 'utf8')
  .split('\n')
  .filter(Boolean)
  .map((line) => JSON.parse(line));
const number = (value) =>
  typeof value === 'number'
    ? value.toLocaleString('en-US', { maximumFractionDigits: value < 10 ? 3 : value < 100 ? 1 : 0 })
    : String(value ?? '');
const fields = ['bench', 'value', 'unit', 'baseline', 'ratio'];
const rest = (row) =>
  Object.entries(row)
    .filter(([key]) => !fields.includes(key))
    .map(
      ([key, value]) =>
        `${key} ${
          typeof value === 'object'
            ? Object.entries(value)
                .map(([k, v]) => `${k} ${number(v)}`)
                .join(' · ')
            : number(value)
        }`,
    )
    .join(', ');
const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim();
const cores = cpus();
const lines = [
  '# Benchmarks',
  '',
  '`make bench` writes this page; do not edit it. A ratio compares a value with the baseline that was measured in the same',
  'run: raw inserts for appends, plain Redis pub/sub for fan-out. A value with `repeat` is the median of that many',
  'measurements. Other values were measured once. The memory of a run and of a node varies: 15 to 26 KB and 0.75 to 1.28 KB',
  'were measured.',
  '',
  `${new Date().toISOString().slice(0, 10)}, commit ${commit}, ${cores.length} cores (${cores[0].model.trim()}), ` +
    `${Math.round(totalmem() / 2 ** 30)} GiB; Postgres with fsync on, everything on this one machine.`,
  '',
  '| measured | value | unit | baseline | ratio | more |',
  '| --- | ---: | --- | ---: | ---: | --- |',
  ...rows.map(
    (row) =>
      `| ${[row.bench, number(row.value), row.unit ?? '', number(row.baseline), number(row.ratio), rest(row)].join(' | ')} |`,
  ),
  '',
];
mkdirSync(dirname(target), { recursive: true });
writeFileSync(target, lines.join('\n'));
