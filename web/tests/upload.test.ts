import { create } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import { describe, expect, it, vi } from 'vitest';
import { ImportFileResponseSchema, ImportOutcome } from '../src/gen/treeagent/v1/document_service_pb';
import { leftPart, MOST_BYTES, ofFiles, type Pick } from '../src/lib/upload/pick';
import type { Upload as Uploading, Send } from '../src/lib/upload/upload.svelte';

// The clients of the gateway are for the address of a page.
vi.stubGlobal('location', { origin: 'http://gateway.example' });
const { Upload } = await import('../src/lib/upload/upload.svelte');

const PROJECT = { id: 'p', name: 'P' };
const file = (path: string, size = 1): File =>
  Object.assign(new File([new Uint8Array(size)], path.split('/').at(-1)!), { webkitRelativePath: path });
const answer = (outcome: ImportOutcome, reason = '') => create(ImportFileResponseSchema, { outcome, reason });

/** Sends all of it, and says what was sent in which order. */
async function sendAll(pick: Pick, send: Send): Promise<{ upload: Uploading; sent: string[]; waited: number[] }> {
  const sent: string[] = [];
  const waited: number[] = [];
  const upload = new Upload(pick.name, {
    send: (project, path, content, signal) => (sent.push(path), send(project, path, content, signal)),
    wait: (tries) => (waited.push(tries), Promise.resolve()),
  });
  await upload.list(pick);
  await upload.start(PROJECT);
  return { upload, sent, waited };
}

describe('a folder', () => {
  it('gives the project its name, and paths begin below it', async () => {
    const pick = ofFiles([file('notes/a.md'), file('notes/deep/b.md')]);
    const { sent, upload } = await sendAll(pick, () => Promise.resolve(answer(ImportOutcome.CREATED)));
    expect([pick.name, sent.sort()]).toEqual(['notes', ['a.md', 'deep/b.md']]);
    expect([upload.phase, upload.counts]).toEqual([
      'done',
      { found: 2, created: 2, replaced: 0, unchanged: 0, left: 0 },
    ]);
  });

  it('leaves out what the command leaves out, once for each folder', async () => {
    const left: string[] = [];
    const found: string[] = [];
    const names = ['.git/a', '.git/b', 'x/node_modules/a.js', 'x/node_modules/b.js', 'x/target', 'x/a.md', ' '];
    await ofFiles(names.map((name) => file(`top/${name}`))).list(
      ({ path }) => found.push(path),
      ({ path }) => left.push(path),
      new AbortController().signal,
    );
    expect([left, found]).toEqual([
      ['.git', 'x/node_modules', ' '],
      ['x/target', 'x/a.md'],
    ]);
    expect(leftPart('target/x')?.path).toBe('target');
  });
});

describe('an upload', () => {
  it('names what it does not send, and what the gateway did not take', async () => {
    const gone = { path: 'gone.md', open: () => Promise.reject(new DOMException('gone', 'NotFoundError')) };
    const large = { path: 'large.txt', open: () => Promise.resolve(file('large.txt', MOST_BYTES + 1)) };
    const image = { path: 'a.png', open: () => Promise.resolve(file('a.png')) };
    const bad = { path: 'bad.md', open: () => Promise.resolve(file('bad.md')) };
    const pick: Pick = { name: '', list: (found) => Promise.resolve([gone, large, image, bad].forEach(found)) };
    const { upload, sent } = await sendAll(pick, (_, path) =>
      path === 'bad.md'
        ? Promise.reject(new ConnectError('path is too long', Code.InvalidArgument))
        : Promise.resolve(answer(ImportOutcome.SKIPPED, 'no text: image')),
    );
    expect(sent.sort()).toEqual(['a.png', 'bad.md']);
    expect(Object.fromEntries(upload.left.map(({ path, reason }) => [path, reason]))).toEqual({
      'gone.md': 'cannot be read',
      'large.txt': 'is larger than 8 MiB: split it',
      'a.png': 'no text: image',
      'bad.md': 'path is too long',
    });
    expect(upload.handled).toBe(4);
  });

  it('waits while the gateway does not answer, longer each time, and goes on with the same file', async () => {
    let failures = 2;
    const { upload, sent, waited } = await sendAll(ofFiles([file('a.md')]), () =>
      failures-- > 0
        ? Promise.reject(new ConnectError('gone', Code.Unavailable))
        : Promise.resolve(answer(ImportOutcome.UNCHANGED)),
    );
    expect([sent, waited]).toEqual([
      ['a.md', 'a.md', 'a.md'],
      [1, 2],
    ]);
    expect([upload.phase, upload.counts.unchanged, upload.waiting]).toEqual(['done', 1, undefined]);
  });

  it('sends at most three files at a time, and none after it was cancelled', async () => {
    const files = Array.from({ length: 10 }, (_, i) => file(`${i}.md`));
    const answers: (() => void)[] = [];
    let most = 0;
    const upload = new Upload('', {
      send: () =>
        new Promise((resolve) => {
          answers.push(() => resolve(answer(ImportOutcome.CREATED)));
          most = Math.max(most, answers.length);
          if (answers.length === 3) {
            upload.cancel();
            answers.splice(0).forEach((reply) => reply());
          }
        }),
    });
    await upload.list(ofFiles(files));
    await upload.start(PROJECT);
    expect([most, upload.phase, upload.counts.created]).toEqual([3, 'cancelled', 3]);
  });

  it('ends when the project is gone', async () => {
    const { upload } = await sendAll(ofFiles([file('a.md'), file('b.md')]), () =>
      Promise.reject(new ConnectError('no such project', Code.NotFound)),
    );
    expect([upload.phase, upload.problem]).toEqual(['cancelled', 'Not found: no such project']);
  });
});
