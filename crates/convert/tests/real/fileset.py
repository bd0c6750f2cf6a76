"""What the make_*.py scripts share: the record of what a file holds, and the calls of outside tools."""
import json
import os
import random
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent
FILES = ROOT / "files"
WORK = ROOT / "work"  # half-made files, not part of the set
# Tools that honour it write the same dates every time.
ENV = dict(os.environ, SOURCE_DATE_EPOCH="1772000000", LC_ALL="C.UTF-8", TZ="UTC")


class Truth:
    """What a person sees in one file. The scripts fill it from the data they also hand to the tool."""
    all = []

    def __init__(self, file, type, tool):
        self.file, self.type, self.tool = file, type, tool
        self.words, self.cells, self.pages, self.sheets = [], [], [], []
        self.absent, self.aside, self.joined = [], [], []
        Truth.all.append(self)

    @property
    def path(self):
        return FILES / self.file

    def say(self, text):
        """Text that a reader must give. Returns it, so that it can be handed to a tool in the same line."""
        self.words.append(text)
        return text

    def page(self, number, *phrases):
        self.pages += [[phrase, number] for phrase in phrases]

    def leave(self, kind, text):
        """Text that a reader may give or name as left out. Returns it."""
        self.aside.append([kind, text])
        return text

    def table(self, head, rows, key=0, groups=()):
        """A table. None is a cell that a merge covers: it has the value of the cell above it.
        groups are heads above the heads: (text, first column, last column)."""
        for text, _, _ in groups:
            self.words.append(text)
        self.words += [text for text in head if text]
        above = [None] * len(head)
        for row in rows:
            self.words += [str(value) for value in row if value not in (None, "")]
            full = [above[i] if value is None else value for i, value in enumerate(row)]
            above = full
            for i, value in enumerate(full):
                if i == key or value in (None, ""):
                    continue
                if head[i]:
                    self.cells.append([head[i], str(full[key]), str(value)])
                for text, first, last in groups:
                    if first <= i <= last and first != last:
                        self.cells.append([text, str(full[key]), str(value)])

    def record(self):
        kept = {"file": self.file, "type": self.type, "tool": self.tool, "words": "\n".join(self.words)}
        for text, _ in self.pages:
            if " ".join(kept["words"].split()).count(text) != 1:
                raise SystemExit(f"{self.file}: this does not occur once: {text}")
        for name in ("cells", "pages", "sheets", "absent", "aside", "joined"):
            if getattr(self, name):
                kept[name] = getattr(self, name)
        return kept


def write_truth():
    records = sorted((truth.record() for truth in Truth.all), key=lambda record: record["file"])
    lines = ",\n".join(json.dumps(record, ensure_ascii=False) for record in records)
    (ROOT / "truth.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def run(*command, cwd=None, stdin=None, allow=(0,)):
    done = subprocess.run([str(part) for part in command], cwd=cwd or WORK, env=ENV, input=stdin,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode not in allow:
        raise SystemExit(f"{command[0]} failed:\n{done.stderr.decode(errors='replace')[-2000:]}")
    return done.stdout


def version(*command):
    """The first version number that a tool prints about itself."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=ENV)
    return re.search(r"\d+(\.\d+)+", done.stdout.decode(errors="replace")).group(0)


def library(name):
    from importlib.metadata import version as installed
    return f"{name} {installed(name)}"


_office = []


def office_name():
    if not _office:
        _office.append("LibreOffice " + version("soffice", "--version"))
    return _office[0]


def office(source, to, target):
    """Lets LibreOffice save source in another format; `to` is an ending, with a filter if it needs one."""
    out = WORK / "office-out"
    shutil.rmtree(out, ignore_errors=True)
    run("soffice", f"-env:UserInstallation=file://{WORK}/office-profile", "--headless", "--convert-to", to,
        "--outdir", out, source)
    made = list(out.iterdir())
    if len(made) != 1:
        raise SystemExit(f"LibreOffice made {len(made)} files of {source}")
    shutil.move(made[0], target)


WHO = ["The harbour office", "Every member", "The night shift", "Our bakery", "The choir", "A small team",
       "The water board", "Nobody in Tønder", "The old mill", "Madame Desrosiers", "The ferry crew", "Herr Grünwald"]
DOES = ["counted", "repaired", "measured", "forgot", "ordered", "painted", "sorted", "described", "borrowed",
        "returned", "compared", "weighed"]
WHAT = ["the copper kettles", "nine wooden boats", "a long list of names", "the winter apples", "both bridges",
        "the blue lanterns", "some rye flour", "the letters of the mayor", "three brass pumps", "the island map",
        "a barrel of tar", "the garden benches"]
WHEN = ["before the first frost", "during the long strike", "while the rain lasted", "after the summer market",
        "without telling anyone", "for the second time", "as the plan had said", "in spite of the fog",
        "on the last day of May", "with borrowed tools", "near the south gate", "until the lamps went out"]


def prose(seed, sentences):
    """Sentences that mean little and are never the same: phrases of them occur once."""
    dice = random.Random(seed)
    return " ".join(f"{dice.choice(WHO)} {dice.choice(DOES)} {dice.choice(WHAT)} {dice.choice(WHEN)} in "
                    f"{dice.randrange(1600, 1960)}." for _ in range(sentences))


def phrase(text, sentence, words=5):
    """Words over the end of a sentence of a prose, to look for on a page. The year makes them unique."""
    parts = text.split()
    end = [i for i, part in enumerate(parts) if part.endswith(".")][sentence]
    return " ".join(parts[end - 1:end - 1 + words])
