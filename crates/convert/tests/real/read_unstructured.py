"""Reads the set with unstructured, strategy "fast": venv-unstructured/bin/python read_unstructured.py FOLDER

Its table elements are given as Markdown tables, its page numbers as marks of pages, and what it knows of a mail's
head as lines, so that the scorer sees all that it found."""
import html.parser
import json
import os
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from unittest.mock import MagicMock

os.environ.update(UNSTRUCTURED_DISABLE_NOTICE="1", DO_NOT_TRACK="1", SCARF_NO_ANALYTICS="true")


class StandIns:
    """The package of the layout models is imported even by the strategy that uses none of them. Empty modules in
    place of its libraries save gigabytes."""
    names = {"torch", "transformers", "timm", "onnxruntime", "huggingface_hub", "accelerate", "matplotlib"}

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return ModuleSpec(name, cls, is_package=True) if name.split(".")[0] in cls.names else None

    @staticmethod
    def create_module(spec):
        module = ModuleType(spec.name)
        module.__getattr__ = StandIns.attribute
        return module

    @staticmethod
    def attribute(name):
        if name == "__version__":
            return "0"
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock()

    @staticmethod
    def exec_module(module):
        pass


# spaCy is imported before: it would take the stand-in of torch for the real one.
import spacy  # noqa: E402

sys.meta_path.insert(0, StandIns)

from unstructured.nlp import tokenize  # noqa: E402
from unstructured.partition.auto import partition  # noqa: E402

ROOT = Path(__file__).resolve().parent


def blank_model():
    """It would download a language model, only to tell titles from other text; the text is the same without."""
    model = spacy.blank("en")
    model.add_pipe("sentencizer")
    return model


tokenize._load_spacy_model = blank_model


class TableReader(html.parser.HTMLParser):
    """The rows of an HTML table. A cell over several columns or rows is repeated in them."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.cell, self.open = [], None, {}
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self.rows.append([])
            self.fill()
        elif tag in ("td", "th"):
            attrs = dict(attrs)
            self.cell = ["", int(attrs.get("colspan") or 1), int(attrs.get("rowspan") or 1)]
        elif tag == "br" and self.cell:
            self.cell[0] += "<br>"

    def handle_data(self, data):
        if self.cell:
            self.cell[0] += data

    def handle_endtag(self, tag):
        if tag in ("td", "th") and self.cell and self.rows:
            text, wide, high = self.cell
            for _ in range(wide):
                if high > 1:
                    self.open[len(self.rows[-1])] = [text, high - 1]
                self.rows[-1].append(text)
                self.fill()
            self.cell = None

    def fill(self):
        """Cells that reach into this row from above."""
        while len(self.rows[-1]) in self.open:
            at = len(self.rows[-1])
            text, left = self.open.pop(at)
            self.rows[-1].append(text)
            if left > 1:
                self.open[at] = [text, left - 1]


def markdown_table(text):
    rows = [[" ".join(cell.split()).replace("|", "\\|") for cell in row] for row in TableReader(text).rows if row]
    if not rows:
        return ""
    width = max(map(len, rows))
    lines = ["| " + " | ".join(row + [""] * (width - len(row))) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * width] + lines[1:])


def markdown(path):
    parts, page = [], None
    elements = partition(str(path), strategy="fast")
    if path.suffix == ".eml" and elements:
        meta = elements[0].metadata
        for name in ("subject", "sent_from", "sent_to", "cc_recipient"):
            value = getattr(meta, name, None)
            if value:
                parts.append(value if isinstance(value, str) else ", ".join(value))
    sheet = None
    for element in elements:
        meta = element.metadata
        if path.suffix == ".pdf" and meta.page_number != page:
            page = meta.page_number
            parts.append(f"<!-- Page {page} -->")
        if meta.page_name and meta.page_name != sheet:
            sheet = meta.page_name
            parts.append(f"## {sheet}")
        table = markdown_table(meta.text_as_html) if meta.text_as_html else ""
        parts.append(table or element.text)
    return "\n\n".join(parts) + "\n"


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    refused = []
    for path in sorted((ROOT / "files").iterdir()):
        try:
            text = markdown(path)
        except Exception as error:  # whatever it stops at, the file counts as refused
            text = ""
            refused.append([path.name, f"{type(error).__name__}: {error}".splitlines()[0][:200]])
        (folder / f"{path.name}.md").write_text(text, encoding="utf-8")
    (folder / "refused.json").write_text(json.dumps(refused, indent=1, ensure_ascii=False) + "\n")
    print(f"{len(refused)} refused")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
