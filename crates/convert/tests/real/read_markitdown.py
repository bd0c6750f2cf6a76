"""Reads the set with markitdown: python3 read_markitdown.py FOLDER"""
import json
import sys
from pathlib import Path

from markitdown import MarkItDown

ROOT = Path(__file__).resolve().parent


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    reader, refused = MarkItDown(enable_plugins=False), []
    for path in sorted((ROOT / "files").iterdir()):
        try:
            text = reader.convert(str(path)).markdown
        except Exception as error:  # whatever it stops at, the file counts as refused
            text = ""
            refused.append([path.name, str(error).splitlines()[0][:200]])
        (folder / f"{path.name}.md").write_text(text, encoding="utf-8")
    (folder / "refused.json").write_text(json.dumps(refused, indent=1, ensure_ascii=False) + "\n")
    print(f"{len(refused)} refused")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
