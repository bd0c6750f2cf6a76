// Documents that are added in the browser, against a real gateway with its real converter.

import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { violations } from './axe';
import { launch } from './browser';
import { Gateway } from './gateway';
import { close, open, treeItem, until } from './page';
import { QUICK } from './quick';

const gateway = new Gateway();
let browser: Browser;
let above: string;
let folder: string;

beforeAll(async () => {
  above = await mkdtemp(join(tmpdir(), 'tree-agent-drop-'));
  folder = join(above, 'Sea notes');
  await mkdir(join(folder, 'moon'), { recursive: true });
  await writeFile(join(folder, 'tides.md'), '# Tides\n\nTides follow the moon.\n');
  await writeFile(join(folder, 'moon', 'page.html'), '<title>Dark</title><h1>The moon</h1><p>It has no light.</p>');
  await writeFile(join(folder, '.secret'), 'no');
  await writeFile(join(folder, 'photo.png'), Buffer.from([0x89, 0x50, 0x4e, 0x47, 0, 1, 2]));
  await writeFile(join(folder, 'large.txt'), 'x'.repeat(9 << 20));
  await symlink('/etc/hostname', join(folder, 'link.txt'));
  [browser] = await Promise.all([launch(), gateway.start()]);
});
afterAll(async () => {
  await browser?.close();
  await gateway.stop();
  await rm(above, { recursive: true, force: true });
});

/** Drops files as the system does. */
async function drop(page: Page, ...files: string[]): Promise<void> {
  await page.locator('main').first().waitFor();
  const devtools = await page.context().newCDPSession(page);
  const data = { items: [], files, dragOperationsMask: 1 };
  for (const type of ['dragEnter', 'dragOver'] as const)
    await devtools.send('Input.dispatchDragEvent', { type, x: 300, y: 300, data });
  await page.getByTestId('drop').waitFor();
  await devtools.send('Input.dispatchDragEvent', { type: 'drop', x: 300, y: 300, data });
  await page.getByTestId('drop').waitFor({ state: 'detached' });
}

const phase = (page: Page, name: string): Promise<void> => page.locator(`[data-phase=${name}]`).waitFor();

async function documents(name: string): Promise<string[]> {
  const { project } = JSON.parse(await gateway.rpc('ProjectService/GetProject', JSON.stringify({ name }))) as {
    project: { projectId: string };
  };
  const { documents = [] } = JSON.parse(
    await gateway.rpc('DocumentService/ListDocuments', JSON.stringify({ projectIds: [project.projectId] })),
  ) as { documents?: { path: string }[] };
  return documents.map((document) => document.path);
}

describe('a folder that is dropped', () => {
  it('becomes a project; what is left out is named; the project can be asked', QUICK, async () => {
    const page = await open(browser, gateway.url);
    await drop(page, folder);
    expect(await page.getByLabel('Name of the new project').inputValue()).toBe('Sea notes');
    await page.getByRole('button', { name: 'Add 4 files' }).click();
    await phase(page, 'done');
    await page.getByText('2 added, 3 skipped').waitFor();
    const skipped = await page.getByRole('list', { name: 'Skipped' }).getByRole('listitem').allInnerTexts();
    expect(skipped.sort()).toEqual([
      '.secret begins with a dot',
      'large.txt is larger than 8 MiB: split it',
      expect.stringMatching(/^photo\.png .*image/),
    ]);
    expect(await violations(page, 'files added')).toEqual([]);
    expect(await documents('Sea notes')).toEqual(['moon/page.html', 'tides.md']);
    await page.getByRole('button', { name: 'Ask this project' }).click();
    await page.getByTestId('ask-context').filter({ hasText: 'Sea notes' }).waitFor();
    expect(await page.getByTestId('upload').count()).toBe(0);

    // The same folder again belongs to the same project, and changes what has changed.
    await writeFile(join(folder, 'tides.md'), '# Tides\n\nTides follow the moon and the sun.\n');
    await drop(page, folder);
    await page.getByRole('button', { name: 'Add 4 files' }).click();
    await page.getByText('1 replaced, 1 unchanged, 3 skipped').waitFor();
    await page.getByRole('link', { name: 'Open the project' }).click();
    await treeItem(page, /^tides\.md/).click();
    await page.getByText('Tides follow the moon and the sun.').waitFor();
    await close(page);
  });

  it('goes to the project of the page at once', async () => {
    const page = await open(browser, `${gateway.url}/projects`);
    await page.getByRole('link', { name: 'Sea notes' }).click();
    await treeItem(page, /^moon/).waitFor();
    const more = join(above, 'more.md');
    await writeFile(more, '# More\n\nThere is more.\n');
    await drop(page, more);
    await treeItem(page, /^more\.md/).waitFor();
    await phase(page, 'done');
    await close(page);
  });

  it('of thousands of files can be cancelled, and the page stays usable', async () => {
    const many = join(above, 'many');
    await mkdir(many);
    for (let i = 0; i < 10_000; i += 500)
      await Promise.all(
        Array.from({ length: 500 }, (_, k) =>
          writeFile(join(many, `${i + k}.${k % 2 ? 'md' : 'bin'}`), `# ${i + k}\n`),
        ),
      );
    const page = await open(browser, gateway.url);
    await drop(page, many);
    await page.getByRole('button', { name: 'Add 10,000 files' }).click();
    await page.locator('#objective').fill('Typed meanwhile');
    await until(
      () => page.getByRole('progressbar').evaluate((bar) => (bar as HTMLProgressElement).value),
      (done) => done >= 20,
      'some are sent',
    );
    await page.getByRole('button', { name: 'Cancel' }).click();
    await phase(page, 'cancelled');
    expect(await page.locator('#objective').inputValue()).toBe('Typed meanwhile');
    const kept = (await documents('many')).length;
    expect(kept).toBeLessThan(5_000);
    await close(page);
  });
});

describe('a gateway that dies', () => {
  it('is waited for, and every file arrives', async () => {
    const names = Array.from({ length: 60 }, (_, i) => `${String(i).padStart(2, '0')}.md`);
    const calm = join(above, 'Calm');
    await mkdir(calm);
    for (const name of names) await writeFile(join(calm, name), `# Note ${name}\n`);
    const page = await open(browser, gateway.url);
    // The first answers hold the others back until the gateway is gone.
    let release = (): void => {};
    const held = new Promise<void>((resolve) => (release = resolve));
    await page.route('**/DocumentService/ImportFile', async (route) => {
      await held;
      await route.continue();
    });
    await drop(page, calm);
    await page.getByRole('button', { name: 'Add 60 files' }).click();
    // The project is there, and the files are on their way.
    await page.getByTestId('upload').getByRole('link', { name: 'Calm' }).waitFor();
    await gateway.kill();
    release();
    await page.getByText('It goes on by itself').waitFor();
    await gateway.start();
    await phase(page, 'done');
    expect(await documents('Calm')).toEqual(names);
    await close(page);
  });
});

describe('files that are chosen', () => {
  it('go to a project that exists', async () => {
    const page = await open(browser, `${gateway.url}/projects`);
    const chooser = page.waitForEvent('filechooser');
    await page.getByRole('button', { name: 'Add files' }).click();
    await (await chooser).setFiles({ name: 'chosen.md', mimeType: 'text/markdown', buffer: Buffer.from('# Chosen\n') });
    await page.locator('#upload-project').selectOption('Sea notes');
    await page.getByRole('button', { name: 'Add 1 file' }).click();
    await phase(page, 'done');
    expect(await documents('Sea notes')).toContain('chosen.md');
    await close(page);
  });
});

describe('an address that leads nowhere', () => {
  it('is a page with a way home', async () => {
    const page = await open(browser, `${gateway.url}/nowhere`);
    await page.getByText('Page not found').waitFor();
    await page.getByRole('link', { name: 'Home', exact: true }).click();
    await page.locator('#objective').waitFor();
    await page.goto(`${gateway.url}/compare`);
    await page.getByText('Choose two runs').waitFor();
    await page.getByRole('link', { name: 'All runs' }).click();
    await page.locator('#objective').waitFor();
    await close(page);
  });
});
