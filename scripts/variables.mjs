// The environment variables that exist: those that programs declare, and those that scripts/cluster writes.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

const lines = (...args) => {
  try {
    return execFileSync('git', args, { encoding: 'utf8' }).split('\n').filter(Boolean);
  } catch (error) {
    if (error.status === 1) return []; // git grep found nothing
    throw error;
  }
};

/**
 * Names that the command lines of the services and of tree-agent declare (`env = "…"`). The evaluation is for
 * developers.
 */
export function variablesOfPrograms() {
  const found = lines(
    'grep',
    '--untracked',
    '-hoE',
    '(^|[^_a-z])env = "[A-Z_]+"',
    '--',
    'crates/**/*.rs',
    'services/**/*.rs',
    ':!crates/eval',
  );
  const keys = [
    'OPENAI_API_KEY',
    'ANTHROPIC_API_KEY',
    'GEMINI_API_KEY',
    'TREE_AGENT_TOKEN',
    'TREE_AGENT_ROLE_TOKEN',
    'TREE_AGENT_FANOUT_KEY',
    'TREE_AGENT_EMBEDDINGS_KEY',
  ]; // never on a command line
  return new Set([...found.map((line) => line.split('"')[1]), ...keys, 'OTEL_EXPORTER_OTLP_ENDPOINT']);
}

/** Names that tests read: what `variable` asks for. */
function variablesOfTests() {
  const found = lines('grep', '--untracked', '-hoE', 'variable\\("[A-Z_]+"\\)', '--', 'crates/*/tests/**/*.rs');
  return found.map((line) => line.split('"')[1]);
}

/** The same, those of tests, and those of target/cluster/env. */
export function variablesInCode() {
  const cluster = readFileSync('scripts/cluster', 'utf8').matchAll(/\b(TREE_AGENT_[A-Z_]+)=/g);
  return new Set([...variablesOfPrograms(), ...variablesOfTests(), ...[...cluster].map((m) => m[1])]);
}
