// Projects and their documents, against a real gateway.

import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { violations } from './axe';
import { launch } from './browser';
import { QUICK } from './quick';
import { Gateway } from './gateway';
import { close, copyAs, open, treeItem, until } from './page';

const gateway = new Gateway();
let browser: Browser;
let notes: string;
/** The ids of projects by name. */
const ids: Record<string, string> = {};

beforeAll(async () => {
  notes = await mkdtemp(join(tmpdir(), 'tree-agent-notes-'));
  await mkdir(join(notes, 'moon', 'far side'), { recursive: true });
  await writeFile(join(notes, 'readme.md'), '# Tides\n\nTides follow the *moon*. <img src=x onerror=alert(1)>\n');
  await writeFile(
    join(notes, 'moon', 'far side', 'dark & cold.md'),
    '# The far side\n\nNobody had seen the regolith there.\n',
  );
  await writeFile(join(notes, 'moon', 'list.txt'), '# not a heading\n  1969\n');
  [browser] = await Promise.all([launch(), gateway.start()]);
  for (const name of ['Coast', 'Desert', 'Old harbour']) {
    await gateway.cli('import', notes, '--project', name);
    ids[name] = (
      JSON.parse(await gateway.rpc('ProjectService/GetProject', JSON.stringify({ name }))) as {
        project: { projectId: string };
      }
    ).project.projectId;
  }
  const archived = {
    project: { projectId: ids['Old harbour'], status: 'PROJECT_STATUS_ARCHIVED' },
    updateMask: 'status',
  };
  await gateway.rpc('ProjectService/UpdateProject', JSON.stringify(archived));
});
afterAll(async () => {
  await browser?.close();
  await gateway.stop();
  await rm(notes, { recursive: true, force: true });
});

const url = (name: string, params: Record<string, string> = {}): string =>
  `${gateway.url}/projects/${ids[name]}?${new URLSearchParams(params).toString()}`;
const names = (page: Page): Promise<string[]> =>
  page.getByRole('list', { name: 'Projects' }).getByRole('link').allInnerTexts();

describe('the list of projects', () => {
  it('shows the active ones, finds by name, and shows the archived ones when asked', async () => {
    const page = await open(browser, `${gateway.url}/runs`);
    await page.getByRole('link', { name: 'Projects' }).click();
    await page.waitForURL('**/projects');
    await page.locator('[data-project-id]').first().waitFor();
    expect(await names(page)).toEqual(['Coast', 'Desert']);
    await page.locator(`[data-project-id="${ids['Coast']}"]`).getByText('3 documents').waitFor();
    await page.getByRole('button', { name: 'Archived' }).click();
    await page.getByText('Old harbour').waitFor();
    expect(await names(page)).toEqual(['Old harbour']);
    await page.getByRole('button', { name: 'All' }).click();
    await page.getByText('Desert').waitFor();
    await page.keyboard.press('/');
    await page.keyboard.type('coa');
    await page.getByText('Desert').waitFor({ state: 'detached' });
    await page.waitForURL(/q=coa/);
    await page.getByRole('searchbox').fill('nothing has this');
    await page.getByText('No matching projects').waitFor();
    await page.getByRole('button', { name: 'Show all projects' }).click();
    await page.getByText('Old harbour').waitFor();
    await page.getByRole('link', { name: 'Desert' }).click();
    await page.waitForURL(`**/projects/${ids['Desert']}`);
    await close(page);
  });

  it('says what to do when there is none, and recovers when the gateway does not answer', async () => {
    const page = await open(browser, 'about:blank');
    await page.route('**/treeagent.v1.ProjectService/ListProjects', (route) => route.abort('connectionrefused'));
    await page.goto(`${gateway.url}/projects`);
    await page.getByRole('alert').getByText('The gateway does not answer').waitFor();
    await page.unroute('**/treeagent.v1.ProjectService/ListProjects');
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.getByText('Coast').waitFor();
    await close(page);
  });
});

describe('a project', () => {
  it('shows its documents as folders and one of them as text, by keyboard too', QUICK, async () => {
    const page = await open(browser, url('Coast'));
    await treeItem(page, /^readme\.md/).waitFor();
    await page.keyboard.press('t');
    await page.locator('[role=treeitem]:focus').waitFor();
    await page.keyboard.press('ArrowLeft');
    await treeItem(page, /^list\.txt/).waitFor({ state: 'detached' });
    expect(await treeItem(page, /^moon, folder, 2 documents/).getAttribute('aria-expanded')).toBe('false');
    for (const key of ['ArrowRight', 'ArrowDown', 'ArrowDown']) await page.keyboard.press(key);
    await treeItem(page, /^dark & cold\.md/)
      .and(page.locator(':focus'))
      .waitFor();
    await page.keyboard.press('Enter');
    const shown = page.getByTestId('project-document');
    await shown.getByText('Nobody had seen the regolith there.').waitFor();
    expect(await shown.getByTestId('document-path').innerText()).toBe('moon/far side/dark & cold.md');
    await shown
      .getByText(/written/)
      .first()
      .waitFor();
    expect(await treeItem(page, /^dark & cold\.md/).getAttribute('aria-selected')).toBe('true');
    // A file that is not Markdown is shown as it is, and Markdown on request. Nothing in a document is executed.
    await treeItem(page, /^list\.txt/).click();
    await shown.getByText('# not a heading').waitFor();
    await treeItem(page, /^readme\.md/).click();
    await shown.locator('em').getByText('moon').waitFor();
    await shown.getByRole('button', { name: 'Plain text' }).click();
    await shown.getByText('*moon*').waitFor();
    expect(await shown.locator('img').count()).toBe(0);
    await page.goBack();
    await shown.getByText('# not a heading').waitFor();
    await close(page);
  });

  it('is linked to document by document, whatever the path', async () => {
    const page = await open(browser, url('Coast', { path: 'moon/far side/dark & cold.md' }));
    const shown = page.getByTestId('project-document');
    await shown.getByText('Nobody had seen the regolith there.').waitFor();
    await treeItem(page, /^dark & cold\.md/).waitFor();
    const copied = await copyAs(page, 'URL', shown);
    await page.goto(copied);
    await shown.getByText('Nobody had seen the regolith there.').waitFor();
    await page.goto(url('Coast', { path: 'moon' }));
    await page.getByText('Document not found').waitFor();
    await page.goto(`${gateway.url}/projects/nonsense`);
    await page.getByText('Project not found').waitFor();
    await page.getByRole('link', { name: 'All projects' }).click();
    await page.getByText('Coast').waitFor();
    await close(page);
  });

  it('is searched for words, and nothing else is', async () => {
    const page = await open(browser, url('Coast'));
    await treeItem(page, /^readme\.md/).waitFor();
    await page.keyboard.press('/');
    await page.keyboard.type('regolith');
    await page.getByTestId('hit-count').filter({ hasText: '1 passage matches' }).waitFor();
    const hits = page.getByRole('list', { name: 'Found passages' });
    expect(await hits.locator('mark').allInnerTexts()).toEqual(['regolith']);
    await hits.getByRole('link', { name: 'The far side' }).click();
    await page.getByTestId('project-document').getByText('Nobody had seen the regolith there.').waitFor();
    // A reload restores both.
    await page.reload();
    await hits.getByRole('link', { name: 'The far side' }).and(page.locator('[aria-current]')).waitFor();
    await page.getByTestId('project-document').getByText('Nobody had seen the regolith there.').waitFor();
    await page.getByRole('searchbox').fill('nothing has this');
    await page.getByText('Nothing found').waitFor();
    await page.getByRole('searchbox').fill('');
    await treeItem(page, /^readme\.md/).waitFor();
    await close(page);
  });

  it('is replaced by a file that somebody chooses', async () => {
    const page = await open(browser, url('Coast', { path: 'moon/list.txt' }));
    await page.getByText('1969').waitFor();
    const chooser = page.waitForEvent('filechooser');
    await page.getByRole('button', { name: 'More about this document' }).click();
    await page.getByRole('button', { name: 'Replace…' }).click();
    await (
      await chooser
    ).setFiles({ name: 'other.txt', mimeType: 'text/plain', buffer: Buffer.from('1972 was last\n') });
    await page.getByText('1972 was last').waitFor();
    await page.getByText('1 replaced').waitFor();
    await close(page);
  });

  it('loses a document once that is confirmed', async () => {
    const page = await open(browser, url('Desert', { path: 'readme.md' }));
    const more = page.getByRole('button', { name: 'More about this document' });
    const remove = page.getByRole('button', { name: 'Delete…' });
    await more.click();
    await remove.click();
    const dialog = page.getByRole('dialog', { name: 'Delete this document?' });
    await dialog.getByText('readme.md', { exact: true }).waitFor();
    await dialog.getByRole('button', { name: 'Keep document' }).click();
    await dialog.waitFor({ state: 'detached' });
    await page.route('**/treeagent.v1.DocumentService/DeleteDocument', (route) => route.abort('connectionrefused'));
    await more.click();
    await remove.click();
    await dialog.getByRole('button', { name: 'Delete document' }).click();
    await dialog.getByRole('alert').filter({ hasText: 'The gateway does not answer' }).waitFor();
    await page.unroute('**/treeagent.v1.DocumentService/DeleteDocument');
    await dialog.getByRole('button', { name: 'Delete document' }).click();
    await page.getByText('No document selected').waitFor();
    await treeItem(page, /^readme\.md/).waitFor({ state: 'detached' });
    await treeItem(page, /^moon/).waitFor();
    const found = await until(
      async () =>
        JSON.parse(
          await gateway.rpc('DocumentService/ListDocuments', JSON.stringify({ projectIds: [ids['Desert']] })),
        ) as { documents: { path: string }[] },
      (list) => list.documents.length === 2,
      'it is gone',
    );
    expect(found.documents.map((d) => d.path)).not.toContain('readme.md');
    await page.goto(url('Desert', { path: 'readme.md' }));
    await page.getByText('Document not found').waitFor();
    await close(page);
  });

  it('fits 360 pixels: the list, or one document', async () => {
    const page = await open(browser, url('Coast'), { viewport: { width: 360, height: 740 } });
    await treeItem(page, /^readme\.md/).click();
    await page.getByTestId('project-document').locator('em').waitFor();
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(360);
    await page.getByRole('link', { name: 'All documents' }).click();
    await treeItem(page, /^readme\.md/).waitFor();
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(360);
    await page.goto(`${gateway.url}/projects`);
    await page.getByText('Coast').waitFor();
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(360);
    await close(page);
  });

  it('is a link in the context of a run', async () => {
    const run = await gateway.run('Look at the coast', 'scripted:fanout=2,depth=1', '--project', 'Coast');
    const page = await open(browser, `${gateway.url}/runs`);
    await page.locator(`[data-run-id="${run}"]`).getByRole('link', { name: 'Coast', exact: true }).click();
    await page.waitForURL(`**/projects/${ids['Coast']}`);
    await page.goto(`${gateway.url}/runs/${run}`);
    await page.locator('header').getByTestId('context').getByRole('link', { name: 'Coast', exact: true }).click();
    await treeItem(page, /^readme\.md/).waitFor();
    await close(page);
  });
});

describe('the tool rules of a project', () => {
  it('are shown and changed', async () => {
    const page = await open(browser, url('Coast'));
    const edit = async (): Promise<void> => {
      await page.getByRole('button', { name: 'More about this project' }).click();
      await page.getByRole('button', { name: 'Tool rules…' }).click();
    };
    await edit();
    await page.getByRole('checkbox', { name: /^Read-only/ }).check();
    expect(await violations(page, 'tool rules')).toEqual([]);
    await page.getByLabel('Not these tools').fill('search_documents bad name!');
    await page.route('**/treeagent.v1.ProjectService/UpdateProject', (route) => route.abort('connectionrefused'));
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('alert').filter({ hasText: 'The gateway does not answer' }).waitFor();
    await page.unroute('**/treeagent.v1.ProjectService/UpdateProject');
    await page.getByLabel('Not these tools').fill('search_documents');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await page.getByTestId('tool-rules').waitFor();
    const { project } = JSON.parse(
      await gateway.rpc('ProjectService/GetProject', JSON.stringify({ projectId: ids['Coast'] })),
    ) as { project: { tools: object } };
    expect(project.tools).toEqual({ deniedTools: ['search_documents'], readOnly: true });
    await page.reload();
    await edit();
    expect(await page.getByRole('checkbox', { name: /^Read-only/ }).isChecked()).toBe(true);
    await page.getByRole('checkbox', { name: /^Read-only/ }).uncheck();
    await page.getByLabel('Not these tools').fill('');
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByTestId('tool-rules').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Ask this project' }).click();
    await page.getByTestId('ask-context').filter({ hasText: 'Coast' }).waitFor();
    await close(page);
  });
});
