// A shell in which lines copied from the page run as they are: `tree-agent` is the binary under test, and `grpcurl`
// hands its arguments to `buf curl`, which npm can install.

import { execFile } from 'node:child_process';
import { chmod, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { BINARY, BUF } from './gateway';

const run = promisify(execFile);

/** Takes the flags of grpcurl that the page uses. */
const GRPCURL = `#!/bin/sh
set -eu
plain=false header='x-none: none' data={}
while [ $# -gt 2 ]; do
    case $1 in
        -plaintext) plain=true; shift ;;
        -H) header=$2; shift 2 ;;
        -d) data=$2; shift 2 ;;
        *) echo "grpcurl: unknown flag $1" >&2; exit 64 ;;
    esac
done
call="$1/$2"
if $plain; then set -- --http2-prior-knowledge "http://$call"; else set -- --cacert "$TREE_AGENT_CA_FILE" "https://$call"; fi
exec '${BUF}' curl --protocol grpc --reflect-header '*' -H "$header" -d "$data" "$@"
`;

export class Shell {
  #bin = '';

  async open(): Promise<void> {
    this.#bin = await mkdtemp(join(tmpdir(), 'tree-agent-bin-'));
    await symlink(BINARY, join(this.#bin, 'tree-agent'));
    const grpcurl = join(this.#bin, 'grpcurl');
    await writeFile(grpcurl, GRPCURL);
    await chmod(grpcurl, 0o755);
  }

  /** What a line prints on its standard output. Fails when the line does. */
  async run(line: string, env: Record<string, string> = {}): Promise<string> {
    const path = `${this.#bin}${delimiter}${process.env.PATH ?? ''}`;
    const { stdout } = await run('sh', ['-c', line], {
      maxBuffer: 64 << 20,
      env: { ...process.env, PATH: path, ...env },
    });
    return stdout;
  }

  async close(): Promise<void> {
    if (this.#bin !== '') await rm(this.#bin, { recursive: true, force: true });
  }
}
