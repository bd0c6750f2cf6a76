"""Scores the text that a reader gave for each file of the set against truth.json.

    python3 score.py FOLDER [--no-pages] [--files] [--faults]

FOLDER holds FILE.md for each file, such as merged.xlsx.md. An empty or missing one counts as a refused file."""
import argparse
import collections
import json
import re
import unicodedata
from pathlib import Path

from tables import fold, plain, read_tables, same

ROOT = Path(__file__).resolve().parent
PAGE = re.compile(r"<!--\s*Page\s+(\d+)\s*-->", re.I)
# A reader names what it leaves out in a line that has both of these.
LEFT_OUT = re.compile(r"hidden|left out|leaves out|omitted|not shown|filtered|skipped|not read|without|\bno\b", re.I)
THING = {"hidden sheet": r"sheets?", "hidden row": r"rows?", "hidden column": r"columns?", "comment": r"comments?",
         "header": r"headers?", "footer": r"footers?", "attachment": r"attachments?", "hidden slide": r"slides?",
         "notes": r"notes?", "hidden text": r"text|paragraphs?", "deleted text": r"deleted|deletions?|changes?",
         "formula without value": r"formulas?|values?"}
PICTURE = re.compile(r"!\[|\b(picture|image|figure|scan|scanned)\b|(no|without) text", re.I)


def tokens(text):
    """Words and numbers. A raised figure is a mark of a note and no part of the word before it; 1,840 is 1840."""
    text = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)
    text = re.sub("[¹²³⁰⁴-⁹]", " ", unicodedata.normalize("NFC", text))
    return re.findall(r"[^\W_]+", text.lower())


def has(words, phrase):
    """Whether the words of a phrase follow each other in a list of words."""
    wanted = tokens(phrase)
    starts = [i for i, word in enumerate(words) if word == wanted[0]]
    return any(words[i:i + len(wanted)] == wanted for i in starts)


def bounded(text, part):
    """Whether a part stands in a text and not within a longer word or number of it."""
    return re.search(r"(?<![\w.,])" + re.escape(fold(part)) + r"(?!\w|[.,]\d)", text) is not None


def number_row(row):
    filled = [cell for cell in row if cell]
    return sum(re.fullmatch(r"[-+]?[\d.,:% €/-]+", cell) is not None for cell in filled) * 2 > len(filled)


def judge_cell(tables, head, key, value):
    """right, below (right, but the head is not the first row of the table), wrong (under another head) or lost."""
    found = "lost"
    for table in tables:
        for at, row in enumerate(table):
            if at == 0 or not any(bounded(cell, key) for cell in row):
                continue
            heads = table[:1] + [above for above in table[1:at] if not number_row(above)]
            for column, cell in enumerate(row):
                if not same(value, cell):
                    continue
                under = [bool(above[column:]) and bounded(above[column], head) for above in heads]
                if under[0]:
                    return "right"
                if any(under):
                    found = "below"
                elif found == "lost":
                    found = "wrong"
    return found


def split_pages(text):
    parts = PAGE.split(text)
    pages = collections.defaultdict(str)
    for number, part in zip(parts[1::2], parts[2::2]):
        pages[int(number)] += part
    return pages


def named(kind, phrase, raw, pages):
    """Whether the reader says that it left something of this kind out."""
    if kind == "picture":
        return PICTURE.search(raw) is not None
    if kind == "page without text":
        return PICTURE.search(pages.get(int(phrase), "")) is not None or any(
            PICTURE.search(line) and phrase in tokens(line) for line in raw.splitlines())
    thing = re.compile(rf"\b({THING[kind]})\b", re.I)
    return any(LEFT_OUT.search(line) and thing.search(line) for line in raw.splitlines())


class Score(collections.Counter):
    """Counts of one file, or of many when added up."""

    def row(self, name):
        def share(part, whole):
            return f"{100 * self[part] / self[whole]:.1f}%" if self[whole] else "-"

        def of(part, whole):
            return f"{self[part]}/{self[whole]}" if self[whole] else "-"
        return [name, str(self["files"]), str(self["refused"]), share("kept", "words"), share("extra", "words"),
                of("right", "cells"), str(self["below"]), str(self["wrong"]), str(self["lost"]),
                of("pages right", "pages"), of("sheets right", "sheets"), of("absent present", "absent"),
                of("aside missed", "aside"), of("joined found", "joined")]


HEADS = ["of", "files", "refused", "words kept", "words more", "cells right", "head below", "wrong", "lost", "pages",
         "sheets", "absent given", "asides missed", "joined"]


def score_file(truth, raw, no_pages):
    score, faults = Score(files=1), []

    def count(what, good, fault):
        if good:
            score[what] += 1
        else:
            faults.append(fault)

    raw = unicodedata.normalize("NFC", raw)
    if not raw.strip():
        score["refused"] += 1
        faults.append("no text at all")
    text = plain(PAGE.sub("", raw))
    words = tokens(text)
    wanted, given = collections.Counter(tokens(truth["words"])), collections.Counter(words)
    missing = wanted - given
    aside = collections.Counter(word for _, phrase in truth.get("aside", []) for word in tokens(phrase))
    score["words"], score["extra"] = sum(wanted.values()), sum((given - wanted - aside).values())
    score["kept"] = score["words"] - sum(missing.values())
    if missing and raw.strip():
        faults.append("words missing: " + " ".join(sorted(missing.elements())))
    tables = read_tables(raw)
    for head, key, value in truth.get("cells", []):
        verdict = judge_cell(tables, head, key, value)
        score["cells"] += 1
        score["right" if verdict == "below" else verdict] += 1
        score["below"] += verdict == "below"
        if verdict in ("wrong", "lost"):
            faults.append(f"cell {verdict}: {head} of {key} = {value}")
    pages = split_pages(raw)
    for phrase, number in truth.get("pages", []):
        score["pages"] += 1
        there = words if no_pages else tokens(plain(pages.get(number, "")))
        count("pages right", has(there, phrase), f"not on page {number}: {phrase}")
    for name in truth.get("sheets", []):
        score["sheets"] += 1
        count("sheets right", has(words, name), f"sheet not named: {name}")
    whole = tokens(raw)
    for phrase in truth.get("absent", []):
        score["absent"] += 1
        if has(words, phrase) or phrase in raw:
            score["absent present"] += 1
            faults.append(f"should be absent: {phrase}")
    for kind, phrase in truth.get("aside", []):
        score["aside"] += 1
        stands = kind != "page without text" and (has(words, phrase) or has(whole, phrase))
        if not stands and not named(kind, phrase, raw, pages):
            score["aside missed"] += 1
            faults.append(f"{kind} neither given nor named: {phrase}")
    for word in truth.get("joined", []):
        score["joined"] += 1
        count("joined found", word.lower() in words, f"broken word: {word}")
    return score, faults


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("folder", type=Path)
    options.add_argument("--no-pages", action="store_true", help="look for the phrases of pages in the whole text")
    options.add_argument("--files", action="store_true", help="a row for each file instead of each type")
    options.add_argument("--faults", action="store_true", help="list every fault")
    options = options.parse_args()
    types, total, listed = collections.defaultdict(Score), Score(), []
    for truth in json.loads((ROOT / "truth.json").read_text(encoding="utf-8")):
        path = options.folder / (truth["file"] + ".md")
        raw = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        score, faults = score_file(truth, raw, options.no_pages)
        types[truth["file" if options.files else "type"]].update(score)
        total.update(score)
        listed += [f"{truth['file']}: {fold(fault)}" for fault in faults]
    rows = [HEADS] + [score.row(name) for name, score in sorted(types.items())] + [total.row("all")]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADS))]
    for at, row in enumerate(rows):
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |")
        if at == 0:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")
    if options.faults:
        print("\n" + "\n".join(listed))


if __name__ == "__main__":
    main()
