"""Web pages and mails."""
import base64
import io
from email.message import EmailMessage
from email.utils import format_datetime
from datetime import datetime, timezone

from PIL import Image

from fileset import FILES, WORK, Truth, prose, run, version

BY_HAND = "written as text"


def save(truth, page, encoding="utf-8"):
    truth.path.write_bytes(page.encode(encoding))


def html_rows(rows, tag="td"):
    return "".join("<tr>" + "".join(f"<{tag}>{value}</{tag}>" for value in row) + "</tr>" for row in rows)


def data_picture():
    data = io.BytesIO()
    Image.effect_noise((24, 24), 60).convert("RGB").quantize(8).save(data, "PNG")
    return base64.b64encode(data.getvalue()).decode()


def spans():
    """Heads over two columns and a first column over several rows."""
    truth = Truth("spans.html", "html", BY_HAND)
    head = ["Coast", "Village", "Boats 1905", "Boats 1935", "Houses 1905", "Houses 1935"]
    groups = [("Afloat", 2, 3), ("Ashore", 4, 5)]
    rows = [["North", "Skallerup", "41", "12", "88", "103"], [None, "Løkken", "67", "25", "140", "212"],
            [None, "Blokhus", "19", "8", "35", "97"], ["West", "Agger", "53", "31", "71", "64"],
            [None, "Vorupør", "48", "44", "59", "92"]]
    truth.table(head, rows, key=1, groups=groups)
    title, after = truth.say("Boats and houses"), truth.say("Houses without a chimney were not counted.")
    cells = []
    for number, row in enumerate(rows):
        span = 1 + next((i for i, later in enumerate(rows[number + 1:]) if later[0]), len(rows) - number - 1)
        first = f'<th rowspan="{span}">{row[0]}</th>' if row[0] else ""
        cells.append("<tr>" + first + "".join(f"<td>{value}</td>" for value in row[1:]) + "</tr>")
    save(truth, f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>
<body><h1>{title}</h1>
<table border="1">
<thead><tr><th rowspan="2">{head[0]}</th><th rowspan="2">{head[1]}</th><th colspan="2">{groups[0][0]}</th>
<th colspan="2">{groups[1][0]}</th></tr>
<tr>{"".join(f"<th>{name}</th>" for name in head[2:])}</tr></thead>
<tbody>{chr(10).join(cells)}</tbody></table>
<p>{after}</p></body></html>
""")


def article():
    """An article within the page of a site: menus, a cookie notice, hidden parts, a picture in a data: address."""
    truth = Truth("article.html", "html", BY_HAND)
    title = truth.say("The last ropewalk closes")
    paragraphs = [truth.say(text) for text in (
        "For ninety years the ropewalk stood between the school and the sea.",
        "On Friday the wheels were stopped, and the foreman swept the floor himself.")]
    text = truth.say(prose(801, 5))
    picture = data_picture()
    alt = truth.leave("picture", "The wheel in the great hall")
    absent = ["Weather Tides Obituaries Marketplace", "We would like to store biscuits",
              "Subscribe to win a bicycle", "This paragraph was never shown", "loadBanner",
              "nobody sees this template", picture[:60]]
    truth.absent += absent
    menu = "".join(f'<li><a href="/{word.lower()}">{word}</a></li>' for word in absent[0].split())
    save(truth, f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title} | Coast Gazette</title>
<style>.sr-only {{ position: absolute; left: -9999px }} .banner {{ color: red }}</style>
<script>function loadBanner() {{ return 1; }}</script></head>
<body>
<a class="sr-only" href="#main">Skip to what matters</a>
<header><nav><ul>{menu}</ul></nav></header>
<div id="notice" style="display: none">{absent[1]}</div>
<main id="main"><article><h1>{title}</h1>
<p>{paragraphs[0]}</p>
<p hidden>{absent[3]}</p>
<figure><img alt="{alt}" src="data:image/png;base64,{picture}"></figure>
<p>{paragraphs[1]}</p>
<p>{text}</p>
<template><p>{absent[5]}</p></template>
</article></main>
<dialog><p>{absent[2]}</p></dialog>
</body></html>
""")


def code():
    """Code whose lines begin with #, which is no heading there; coloured by the converter that made the page."""
    truth = Truth("code.html", "html", "pandoc " + version("pandoc", "--version"))
    lines = ["# Wait until the kettle is free", "while ! kettle --free; do sleep 5; done", "## never twice",
             "kettle --boil --litres 2 | tee boiled.txt"]
    source = "\n".join(["# " + truth.say("How to boil water"), "", truth.say("Run this on the kitchen machine:"), "",
                        "```bash", *lines, "```", "", truth.say("It ends when the lid rattles."), "",
                        "| Option | Default |", "|---|---|", "| `--litres` | `1` |", "| `--lid` | `closed` |", ""])
    truth.say("\n".join(lines))
    truth.table(["Option", "Default"], [["--litres", "1"], ["--lid", "closed"]])
    run("pandoc", "-s", "--metadata", "pagetitle=How to boil water", "-f", "markdown", "-o", truth.path,
        stdin=source.encode())


def layout():
    """A page laid out with tables within tables, as a browser saves it after its scripts have run."""
    truth = Truth("layout.html", "html", "Chromium " + version("chromium", "--version"))
    head = ["Course", "Teacher", "Evenings"]
    rows = [["Knots", "Ragnhild", "6"], ["Signals", "Matthieu", "4"], ["Star charts", "Wiebke", "9"]]
    truth.table(head, rows)
    parts = [truth.say(text) for text in ("Evening school at the pier", "Bring your own chalk.",
                                          "Courses begin when the clocks change.", "Office: second door on the left")]
    added = truth.say("Places are left in every course.")
    source = WORK / "layout-source.html"
    source.write_text(f"""<html><head><meta charset="utf-8"><title>{parts[0]}</title></head><body>
<table width="100%" cellpadding="8"><tr><td colspan="2"><font size="5">{parts[0]}</font></td></tr>
<tr><td width="25%" valign="top">{parts[1]}<br>{parts[3]}</td>
<td><p>{parts[2]}</p><table border="1">{html_rows([head], "th")}{html_rows(rows)}</table><p id="late"></p></td></tr>
</table><script>document.getElementById('late').textContent = {added!r};</script></body></html>
""", encoding="utf-8")
    page = run("chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={WORK}/chromium-profile",
               "--dump-dom", f"file://{source}")
    truth.path.write_bytes(page)
    truth.absent.append("getElementById")


def charset():
    """An old page whose encoding only its meta element tells."""
    truth = Truth("charset.html", "html", BY_HAND)
    title = truth.say("Gästebuch der Mühle")
    lines = [truth.say(text) for text in ("Schöne Aussicht, süßer Kuchen – „fünf Sterne“.",
                                          "Très belle journée, merci à l’équipe.",
                                          "Hyggeligt sted på bakken, øl til 3 €.")]
    body = "\n".join(f"<p>{line}</p>" for line in lines)
    save(truth, '<html><head><meta http-equiv="Content-Type" content="text/html; charset=windows-1252">\n'
                f"<title>{title}</title></head>\n<body><h1>{title}</h1>\n{body}\n</body></html>\n", "cp1252")


def mail(truth, subject, sender, to, cc=None, day=3):
    message = EmailMessage()
    message["From"], message["To"] = truth.say(sender), truth.say(to)
    if cc:
        message["Cc"] = truth.say(cc)
    message["Subject"] = truth.say(subject)
    message["Date"] = format_datetime(datetime(2026, 3, day, 9, 41, tzinfo=timezone.utc))
    message["Message-ID"] = f"<{truth.file}.{day}@example.org>"
    return message


def finish(truth, message, *marks):
    """Boundaries are drawn by lot, so they are replaced by fixed ones."""
    parts = [part for part in message.walk() if part.get_content_maintype() == "multipart"]
    for number, part in enumerate(parts):
        part.set_boundary(f"=-{truth.file}-{number}")
    truth.path.write_bytes(message.as_bytes())


def mail_plain():
    truth = Truth("plain.eml", "mail", "Python email")
    message = mail(truth, "Schlüssel für den Schuppen", "Jörg Petersen <joerg@example.org>",
                   "Amélie Laurent <amelie@example.com>", "Signe Østergaard <signe@example.net>")
    body = ("Liebe Amélie,\n\nder Schlüssel liegt unter dem grünen Topf. Bitte gieß die Tomaten, "
            "die Gurken brauchen nichts.\n\n> Wer hat den Schlüssel zuletzt gehabt?\n\nViele Grüße\nJörg\n")
    message.set_content(truth.say(body))
    finish(truth, message)


def mail_alternative():
    """Plain text and HTML of the same; only the HTML has the table as a table."""
    truth = Truth("alternative.eml", "mail", "Python email")
    message = mail(truth, "Your order of bulbs", "Bulb House <orders@example.org>", "k.vinther@example.com")
    head, rows = ["Bulb", "Pieces", "Price"], [["Tulip, red", "40", "18.00"], ["Crocus", "75", "13.50"],
                                               ["Fritillary", "12", "21.60"]]
    hello, bye = "Thank you for your order.", "We dig them up on Thursday."
    table = "\n".join(" - ".join(row) for row in rows)
    message.set_content(f"{hello}\n\n{table}\n\n{bye}\n")
    message.add_alternative(f"<html><head><style>td {{ padding: 4px }}</style></head><body><p>{hello}</p><table>"
                            f"{html_rows([head], 'th')}{html_rows(rows)}</table><p>{bye}</p>"
                            '<img src="https://example.org/open.gif" width="1" height="1" alt=""></body></html>\n',
                            subtype="html")
    truth.say(hello)
    truth.table(head, rows)
    truth.say(bye)
    truth.absent.append("padding: 4px")
    finish(truth, message)


def mail_forwarded():
    """A mail within a mail."""
    truth = Truth("forwarded.eml", "mail", "Python email")
    inner = mail(truth, "Storm damage at the jetty", "Harbour master <master@example.org>", "council@example.com",
                 day=1)
    inner.set_content(truth.say("Two piles are broken and the lamp is gone.\nRepairs need about nine days.\n"))
    message = mail(truth, "Fwd: Storm damage at the jetty", "Council office <council@example.com>",
                   "Ebba Lund <ebba@example.net>", day=2)
    message.set_content(truth.say("Ebba, can we pay this from the winter fund?\n"))
    message.add_attachment(inner)
    finish(truth, message)


def mail_attachments():
    truth = Truth("attachments.eml", "mail", "Python email")
    message = mail(truth, "Papers for Tuesday", "Lise Bang <lise@example.org>", "board@example.com")
    message.set_content(truth.say("Both papers are attached. Please read the second one first.\n"))
    data = run("pandoc", "-f", "markdown", "-t", "docx", "-o", "-", stdin=b"The roof fund holds 9000 crowns.\n")
    message.add_attachment(data, maintype="application", filename=truth.leave("attachment", "roof fund.docx"),
                           subtype="vnd.openxmlformats-officedocument.wordprocessingml.document")
    message.add_attachment("tile;pieces\r\nridge;40\r\nplain;900\r\n", subtype="csv",
                           filename=truth.leave("attachment", "tiles-überblick.csv"))
    truth.absent.append(base64.b64encode(data).decode()[:40])
    finish(truth, message)


def mail_charset():
    """HTML only; the mail does not name the encoding, the meta element of the page does."""
    truth = Truth("charset.eml", "mail", "Python email")
    message = mail(truth, "Invitation", "Café Zwölf <cafe@example.org>", "alle@example.com")
    lines = [truth.say(text) for text in ("Wir öffnen am 1. März um fünf Uhr früh.", "Venez goûter la crème brûlée.")]
    page = ('<html><head><meta charset="iso-8859-1"></head><body>' + "".join(f"<p>{line}</p>" for line in lines)
            + "</body></html>\n")
    message.set_content(page.encode("latin-1"), maintype="text", subtype="html", cte="8bit")
    finish(truth, message)


def make():
    for part in (spans, article, code, layout, charset, mail_plain, mail_alternative, mail_forwarded, mail_attachments,
                 mail_charset):
        part()


if __name__ == "__main__":
    FILES.mkdir(exist_ok=True)
    WORK.mkdir(exist_ok=True)
    make()
