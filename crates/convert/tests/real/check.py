"""Looks whether the files hold what truth.json says, with other programs than those that are to be measured:
venv/bin/python check.py. PDFs are read by pdftotext, office files after printing, web pages after printing.
A line is printed for each doubt; a few are to be looked at by a person, as the text recogniser may err."""
import collections
import json
import shutil
import subprocess

from fileset import FILES, ROOT, WORK, office, run
from score import has, tokens


UNSEEN = ("hidden sheet", "hidden row", "hidden column", "hidden slide", "hidden text", "notes")


def text_of(pdf, *options):
    return subprocess.run(["pdftotext", *options, str(pdf), "-"], stdout=subprocess.PIPE).stdout.decode()


def printed(record):
    """The file as a PDF, printed by the program that people open it with; None for mail and values."""
    path, kind = FILES / record["file"], record["type"]
    if kind == "pdf":
        return path
    target = WORK / "printed.pdf"
    if kind == "html":
        run("chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={WORK}/chromium-profile",
            "--no-pdf-header-footer", f"--print-to-pdf={target}", f"file://{path}")
    elif kind in ("office", "sheet", "slides") and path.suffix != ".epub":
        # Under another name, so that the ending of the printed file cannot meet that of another one.
        shutil.copy(path, WORK / ("print-me" + path.suffix))
        office(WORK / ("print-me" + path.suffix), "pdf", target)
    else:
        return None
    return target


def doubts(record):
    pdf = printed(record)
    if pdf is None:
        return
    straight, lines = text_of(pdf, "-raw"), text_of(pdf, "-layout")
    wanted = collections.Counter(tokens(record["words"])) - collections.Counter(tokens(straight))
    wanted -= collections.Counter(tokens(text_of(pdf)))  # without -raw it joins broken words
    wanted -= collections.Counter(tokens(" ".join(record.get("sheets", []))))  # names are not printed
    if wanted:
        yield "not seen: " + " ".join(sorted(wanted.elements()))
    for phrase, number in record.get("pages", []):
        one = ("-f", str(number), "-l", str(number))
        if not any(has(tokens(text_of(pdf, *one, *how)), phrase) for how in ((), ("-layout",), ("-raw",))):
            yield f"not on page {number}: {phrase}"
    for word in record.get("joined", []):
        if word.lower() in tokens(lines):
            yield f"not broken: {word}"
    for phrase in record.get("absent", []):
        if has(tokens(straight), phrase):
            yield f"seen: {phrase}"
    for kind, phrase in record.get("aside", []):
        if kind in UNSEEN and has(tokens(straight), phrase):
            yield f"seen, although {kind}: {phrase}"
    for value in {value for _, _, value in record.get("cells", [])}:
        if not has(tokens(straight), value) and not has(tokens(lines), value) and tokens(value):
            yield f"value not seen: {value}"


def main():
    for record in json.loads((ROOT / "truth.json").read_text(encoding="utf-8")):
        for doubt in doubts(record):
            print(f"{record['file']}: {doubt}")
        limit = 80 if "scan" in record["file"] else 40
        if (FILES / record["file"]).stat().st_size > limit * 1024:
            print(f"{record['file']}: larger than {limit} KB")


if __name__ == "__main__":
    main()
