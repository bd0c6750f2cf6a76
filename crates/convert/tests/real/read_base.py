"""Reads the set with tree-agent: a server of its own on a free port, an import, and the text of each document.

    python3 read_base.py BINARY FOLDER"""
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent


def environment(home):
    """Without the user's own settings, keys and data."""
    kept = {name: value for name, value in os.environ.items() if not re.match(r"TREE_AGENT_|.*_API_KEY$", name)}
    return dict(kept, HOME=home, XDG_DATA_HOME=home, XDG_CONFIG_HOME=home, XDG_CACHE_HOME=home)


def wait_for_server(process, log):
    for _ in range(150):
        found = re.search(r"http://127\.0\.0\.1:\d+", log.read_text(errors="replace"))
        if found:
            return found.group(0)
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise SystemExit("the server did not start:\n" + log.read_text(errors="replace")[-1500:])


def main(binary, folder):
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        env, log = environment(home), Path(home) / "server.log"

        def call(*command, check=True):
            done = subprocess.run([binary, *command, "--server", url], env=env, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=300)
            if check and done.returncode:
                raise SystemExit(f"{command[0]}: {done.stderr.decode(errors='replace')[-1500:]}")
            # What is said of a file beside its text stands on stderr.
            aside = done.stderr.decode("utf-8", errors="replace") if command[0] == "doc" else ""
            return f'{done.stdout.decode("utf-8", errors="replace")}\n{aside}'

        with log.open("wb") as sink:
            server = subprocess.Popen([binary, "dev", "--listen", "127.0.0.1:0", "--data-dir", f"{home}/data",
                                       "--embeddings", "none", "--color", "never"], env=env, stdout=sink, stderr=sink,
                                      stdin=subprocess.DEVNULL)
        try:
            url = wait_for_server(server, log)
            report = json.loads(call("import", str(ROOT / "files"), "--project", "set", "--no-ignore", "-o", "json"))
            known = {document["path"] for document in json.loads(call("docs", "--project", "set", "-o", "json"))}
            for path in sorted((ROOT / "files").iterdir()):
                text = call("doc", f"set:{path.name}") if path.name in known else ""
                (folder / f"{path.name}.md").write_text(text, encoding="utf-8")
            refused = report.get("skippedFiles") or []
            (folder / "refused.json").write_text(json.dumps(refused, indent=1, ensure_ascii=False) + "\n")
            print(f"{len(known)} read, {len(refused)} refused")
        finally:
            server.terminate()
            server.wait(30)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
