"""Reads Markdown: its text without marks, and its tables as lists of rows of cells."""
import datetime
import html
import re

RULE = re.compile(r"\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?")
ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
LINK = re.compile(r"!?\[([^\[\]]*)\]\((?:[^()\s]|\([^()]*\))*(?:\s+\"[^\"]*\")?\)")
EMPHASIS = re.compile(r"(?<!\w)[*_]{1,3}(?=\S)|(?<=\S)[*_]{1,3}(?!\w)|`|~~")


def fold(text):
    return " ".join(text.split())


def plain(text):
    """The text without the marks of Markdown. Escaped marks are text, so they are put aside first."""
    text = ESCAPE.sub(lambda found: chr(0xE000 + ord(found[1])), text)
    text = re.sub(r"<br\s*/?>", " ", text, flags=re.I)
    text = re.sub(r"\[\^[^\]\s]+\]", " ", text)
    text = EMPHASIS.sub("", LINK.sub(r"\1", text))
    return html.unescape(re.sub("[\ue000-\ue07f]", lambda found: chr(ord(found[0]) - 0xE000), text))


def cells(line):
    line = line.strip().removeprefix("|")
    line = re.sub(r"(?<!\\)\|$", "", line)
    return [fold(plain(cell)) for cell in re.split(r"(?<!\\)\|", line)]


def read_tables(text):
    """Tables with the row before the rule first. A table ends at a line that does not begin with |."""
    tables, table, before, fenced = [], None, None, False
    for line in text.splitlines():
        line = line.strip()
        if re.match(r"```|~~~", line):
            fenced = not fenced
        if fenced or not line.startswith("|"):
            table = before = None
        elif RULE.fullmatch(line) and "-" in line and before is not None and table is None:
            table = [cells(before)]
            tables.append(table)
        elif table is not None:
            table.append(cells(line))
        before = line if line.startswith("|") and table is None else None
    return tables


def number(text):
    """A number as programs write it: with or without separators, trailing zeros or a percent sign."""
    if not re.fullmatch(r"[-+]?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?\s*%?", text):
        return None
    return float(text.rstrip("% ").replace(",", "")), text.endswith("%")


def date(text):
    text = re.sub(r"[T ]00:00(:00)?$", "", text)
    for pattern in ("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y"):
        try:
            return datetime.datetime.strptime(text, pattern)
        except ValueError:
            pass
    return None


def same(value, cell):
    """Whether a cell holds the value, if perhaps in another way of writing numbers and dates."""
    value = fold(value)
    if value == cell:
        return True
    return any(read(value) is not None and read(value) == read(cell) for read in (number, date))
