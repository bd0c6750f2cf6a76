// Files that somebody dropped or chose, folders included. Nothing is read here: a folder of ten thousand files is only
// listed, in steps that leave the page usable.

/** The gateway takes no larger file. */
export const MOST_BYTES = 8 << 20;

/** A file that may be sent. */
export interface Picked {
  /** Within what was picked, /-separated. */
  path: string;
  open: () => Promise<File>;
}

/** A file or folder that is left out, and why. */
export interface Left {
  path: string;
  reason: string;
}

export interface Pick {
  /** The folder, if it was one: a name for a project. */
  name: string;
  /** Calls back for each file, and for what is left out, until everything is listed or `signal` aborts. */
  list: (found: (file: Picked) => void, left: (what: Left) => void, signal: AbortSignal) => Promise<void>;
}

/** Folders that `tree-agent import` leaves out too. */
const NEVER = new Set(['node_modules', 'target', '__pycache__', 'venv']);

/** Why a name is left out; empty if it is not. */
export function leftOut(name: string, isFolder: boolean): string {
  if (name.trim() === '') return 'has no name';
  if (name.startsWith('.')) return 'begins with a dot';
  return isFolder && NEVER.has(name) ? 'is a folder of generated or foreign files' : '';
}

/** The first part of a path that is left out, up to and with it; undefined if all parts are taken. */
export function leftPart(path: string): Left | undefined {
  const parts = path.split('/');
  for (const [i, part] of parts.entries()) {
    const reason = leftOut(part, i < parts.length - 1);
    if (reason !== '') return { path: parts.slice(0, i + 1).join('/'), reason };
  }
  return undefined;
}

const opened = (entry: FileSystemFileEntry): Promise<File> =>
  new Promise((resolve, reject) => entry.file(resolve, reject));

/** The next entries of a folder, about a hundred; none after the last. */
const next = (reader: FileSystemDirectoryReader): Promise<FileSystemEntry[]> =>
  new Promise((resolve, reject) => reader.readEntries(resolve, reject));

/** What was dropped. Must be called while the event is handled: later the browser no longer says what it was. */
export function dropped(transfer: DataTransfer): Pick {
  const items = [...transfer.items].filter((item) => item.kind === 'file');
  const roots = items.map((item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
  if (roots.length < items.length) return ofFiles([...transfer.files]);
  // As with the command, paths begin below the one folder.
  const [only] = roots;
  const folder = roots.length === 1 && only?.isDirectory ? only : undefined;
  const cut = folder === undefined ? 1 : folder.fullPath.length + 1;
  return {
    name: folder?.name ?? '',
    async list(found, left, signal) {
      const open = [...roots].reverse();
      for (let entry = open.pop(); entry !== undefined && !signal.aborted; entry = open.pop()) {
        const path = entry.fullPath.slice(cut) || entry.name;
        const reason = entry === folder ? '' : leftOut(entry.name, entry.isDirectory);
        if (reason !== '') left({ path, reason });
        else if (entry.isDirectory) {
          const reader = (entry as FileSystemDirectoryEntry).createReader();
          try {
            for (let some = await next(reader); some.length > 0; some = await next(reader))
              open.push(...some.reverse());
          } catch {
            left({ path, reason: 'cannot be read' });
          }
        } else if (entry.isFile) {
          const file = entry as FileSystemFileEntry;
          found({ path, open: () => opened(file) });
        } else left({ path, reason: 'is neither a file nor a folder' });
      }
    },
  };
}

/** What was chosen with the browser's own dialog. */
export function ofFiles(files: readonly File[]): Pick {
  // Those of a folder name it first.
  const folder = /^([^/]+)\//.exec(files[0]?.webkitRelativePath ?? '')?.[1] ?? '';
  return {
    name: folder,
    list(found, left) {
      const told = new Set<string>();
      for (const file of files) {
        const path = folder === '' ? file.name : file.webkitRelativePath.slice(folder.length + 1);
        const out = leftPart(path);
        if (out === undefined) found({ path, open: () => Promise.resolve(file) });
        else if (!told.has(out.path)) {
          told.add(out.path);
          left(out);
        }
      }
      return Promise.resolve();
    },
  };
}

/** Lets somebody choose files, or a folder. `accept` names the types. Resolves when some are chosen. */
export function choose(options: { folder?: boolean; one?: boolean; accept?: string } = {}): Promise<File[]> {
  const input = document.createElement('input');
  input.type = 'file';
  input.multiple = options.one !== true;
  input.webkitdirectory = options.folder === true;
  input.accept = options.accept ?? '';
  return new Promise((resolve) => {
    input.onchange = () => resolve([...(input.files ?? [])]);
    input.click();
  });
}
