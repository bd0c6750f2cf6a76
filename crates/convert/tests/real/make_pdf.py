"""PDFs as office programs, browsers and typesetters print them."""
import docx
from docx.enum.section import WD_ORIENT, WD_SECTION
from docx.enum.text import WD_BREAK
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from docx.shared import Cm, Pt
from PIL import Image, ImageDraw

from fileset import FILES, WORK, Truth, library, office, office_name, phrase, prose, run, version


def office_pdf(truth, document):
    source = WORK / truth.file.replace(".pdf", ".docx")
    document.save(source)
    office(source, "pdf", truth.path)


def word_table(document, head, rows, repeat=False):
    table = document.add_table(rows=1, cols=len(head), style="Table Grid")
    for cell, text in zip(table.rows[0].cells, head):
        cell.text = text
    for row in rows:
        for cell, text in zip(table.add_row().cells, row):
            cell.text = text
    if repeat:
        mark = OxmlElement("w:tblHeader")
        mark.set(qn("w:val"), "true")
        table.rows[0]._tr.get_or_add_trPr().append(mark)
    return table


def new_document():
    document = docx.Document()
    document.styles["Normal"].font.name = "Liberation Serif"
    document.styles["Normal"].font.size = Pt(11)
    return document


def long_table():
    """A table over two pages whose head stands on both."""
    truth = Truth("lo-long-table.pdf", "pdf", office_name())
    document = new_document()
    document.add_heading(truth.say("Seed store of Vejle"), 1)
    document.add_paragraph(truth.say("The list names every kind of seed that the store held when winter began."))
    document.add_paragraph(truth.say(prose(100, 24)))
    plants = ["Kale", "Leek", "Chard", "Rocket", "Sorrel", "Fennel", "Parsnip", "Salsify", "Lovage", "Borage",
              "Dill", "Cress", "Endive", "Turnip", "Radish", "Carrot", "Beetroot", "Spinach", "Lettuce", "Celery",
              "Pumpkin", "Gherkin", "Runner bean", "Broad bean", "Snow pea", "Marrow", "Sweetcorn", "Chervil",
              "Parsley", "Marjoram", "Savory", "Tarragon", "Hyssop", "Angelica", "Caraway", "Coriander",
              "Rampion", "Skirret", "Orache", "Purslane"]
    places = ["cellar", "loft", "north shed", "cold room"]
    head = ["Seed", "Grams", "Kept in", "Sown until"]
    rows = [[plant, str(115 + 37 * i), places[i * 7 % 4], f"week {9 + i * 5 % 31}"] for i, plant in enumerate(plants)]
    truth.table(head, rows)
    word_table(document, head, rows, repeat=True)
    document.add_paragraph()
    document.add_paragraph(truth.say("What is not in the list was given to the school in Jelling."))
    truth.page(1, "names every kind of seed")
    truth.page(2, "was given to the school")
    office_pdf(truth, document)


def two_tables():
    """Page 2 holds a table of its own and nothing else; its columns differ from those of page 1."""
    truth = Truth("lo-two-tables.pdf", "pdf", office_name())
    document = new_document()
    document.add_heading(truth.say("Boats and berths"), 1)
    document.add_paragraph(truth.say("Fees are paid by the owner at the first landing of a year."))
    head = ["Boat", "Owner", "Metres", "Fee"]
    rows = [["Havlit", "Sørensen", "7.4", "310"], ["Perle", "Dufour", "6.1", "255"],
            ["Kormoran", "Weiß", "9.8", "420"], ["Skarv", "Lindholm", "5.5", "230"]]
    truth.table(head, rows)
    word_table(document, head, rows)
    document.add_paragraph().add_run().add_break(WD_BREAK.PAGE)
    head = ["Berth", "Depth", "Water", "Free from"]
    rows = [["A1", "2.4 m", "yes", "3 April"], ["A2", "2.1 m", "no", "17 May"], ["B1", "3.0 m", "yes", "9 June"],
            ["B2", "1.6 m", "no", "21 March"], ["C4", "2.8 m", "yes", "30 June"]]
    truth.table(head, rows)
    word_table(document, head, rows)
    document.add_section(WD_SECTION.NEW_PAGE)
    document.add_paragraph(truth.say("Berths are let by the week, and the list is hung up on Mondays."))
    truth.page(1, "paid by the owner at")
    truth.page(2, "A2 2.1 m no")
    truth.page(3, "Berths are let by the week")
    office_pdf(truth, document)


def columns_office():
    """Two columns of text as a word processor sets them, below a title over both."""
    truth = Truth("lo-columns.pdf", "pdf", office_name())
    document = new_document()
    document.add_heading(truth.say("The quiet harbour"), 1)
    document.add_paragraph(truth.say("A letter to the members, printed twice a year."))
    section = document.add_section(WD_SECTION.CONTINUOUS)
    cols = section._sectPr.xpath("./w:cols")[0]
    cols.set(qn("w:num"), "2")
    cols.set(qn("w:space"), "500")
    texts = [prose(seed, 9) for seed in range(101, 110)]
    for text in texts:
        document.add_paragraph(truth.say(text))
    for text in texts[:4]:
        truth.page(1, phrase(text, 1, 9), phrase(text, 4, 9))
    truth.page(2, phrase(texts[8], 4, 9))
    office_pdf(truth, document)


def picture_page():
    """Page 2 holds a drawing and no text."""
    truth = Truth("lo-picture-page.pdf", "pdf", office_name())
    picture = Image.new("RGB", (600, 800), "white")
    draw = ImageDraw.Draw(picture)
    for i in range(0, 300, 20):
        draw.ellipse((300 - i, 400 - i, 300 + i, 400 + i), outline=(20, 60 + i // 2, 120))
    picture.save(WORK / "rings.png", optimize=True)
    document = new_document()
    document.add_heading(truth.say("Rings in the pond"), 1)
    document.add_paragraph(truth.say("A stone was thrown from the jetty, and a drawing of the water follows."))
    document.add_paragraph().add_run().add_break(WD_BREAK.PAGE)
    document.add_picture(str(WORK / "rings.png"), width=Cm(15))
    document.add_section(WD_SECTION.NEW_PAGE)
    document.add_paragraph(truth.say("The rings reached the reeds after eleven seconds."))
    truth.page(1, "was thrown from the jetty")
    truth.page(3, "rings reached the reeds")
    truth.leave("page without text", "2")
    office_pdf(truth, document)


def footnotes():
    """Footnotes below the text of their page."""
    truth = Truth("lo-footnotes.pdf", "pdf", office_name() + ", pandoc " + version("pandoc", "--version"))
    parts = [("The bell of Rømø", "The bell was cast in one night", "Some say in two nights, which the bill denies.",
              "and hung before the paint was dry."),
             ("The bell in use", "It is rung when the tide turns",
              "The table of tides is kept by the widow Krogh.", "and at no other hour.")]
    lines = []
    for number, (title, before, note, after) in enumerate(parts, 1):
        more = prose(200 + number, 7)
        lines += [f"# {title}", f"{before}[^{number}] {after}", more, f"[^{number}]: {note}"]
        for text in (title, before, after, more, note):
            truth.say(text)
    truth.page(1, "bell was cast in one", "which the bill denies", "kept by the widow Krogh")
    run("pandoc", "-f", "markdown", "-o", WORK / "lo-footnotes.docx", stdin="\n\n".join(lines).encode())
    office(WORK / "lo-footnotes.docx", "pdf", truth.path)


def landscape():
    """A page set sideways: its text runs along the long edge, as the viewer shows it."""
    truth = Truth("lo-landscape.pdf", "pdf", office_name())
    document = new_document()
    document.add_paragraph(truth.say("The rota of the bakery is on the next page and holds for nine weeks."))
    section = document.add_section(WD_SECTION.NEW_PAGE)
    section.orientation = WD_ORIENT.LANDSCAPE
    section.page_width, section.page_height = section.page_height, section.page_width
    document.add_paragraph(truth.say("Rota of the bakery in autumn"))
    head = ["Week", "Oven", "Counter", "Deliveries", "Cleaning", "Stand-in"]
    names = ["Maren", "Jürgen", "Odile", "Pelle", "Brigitte", "Aksel", "Noémie"]
    rows = [[f"W{n}"] + [names[(n * 3 + k * 2) % 7] if (n + k) % 5 else "" for k in range(1, 6)]
            for n in range(20, 29)]
    truth.table(head, rows)
    word_table(document, head, rows)
    truth.page(1, "the bakery is on the next")
    truth.page(2, "Oven Counter Deliveries")
    office_pdf(truth, document)


def columns_groff():
    """Two columns by a typesetter that breaks words at line ends."""
    truth = Truth("groff-columns.pdf", "pdf", "groff " + version("groff", "--version"))
    title, texts = "Notes on wooden bridges", [prose(seed, 8) for seed in range(301, 309)]
    extra = ["Representatives of neighbouring municipalities discussed responsibilities for reconstruction, "
             "maintenance, documentation and international transportation.",
             "Administrative recommendations concerning environmental considerations were unanimously "
             "acknowledged, notwithstanding considerable uncertainty.",
             "Photographs illustrating deterioration accompanied the correspondence between archaeologists, "
             "manufacturers and superintendents.",
             "Extraordinary circumstances necessitated simultaneous investigations, interdisciplinary "
             "consultation and comprehensive refurbishment."]
    for place, text in zip((0, 2, 4, 6), extra):
        texts[place] = text + " " + texts[place]
    source = [".nr PS 11", ".nr VS 13", ".TL", title, ".2C"]
    for text in texts:
        source += [".PP", text]
        truth.say(text)
    truth.say(title)
    pdf = run("groff", "-ms", "-k", "-Tpdf", stdin="\n".join(source + [""]).encode())
    truth.path.write_bytes(pdf)
    truth.joined += GROFF_BROKEN
    # Each runs over the end of a line, and none has a broken word.
    for text, sentence in ((2, 2), (3, 2), (4, 3), (5, 0)):
        truth.page(1, phrase(texts[text], sentence, 7))


# Where a line ends is the typesetter's choice: check.py tells when another version breaks other words.
GROFF_BROKEN = ["municipalities", "reconstruction", "archaeologists", "superintendents", "necessitated",
                "interdisciplinary", "refurbishment"]


def web_report():
    """Three pages with a line at the head and foot of each, and a contents list with page numbers."""
    truth = Truth("weasy-report.pdf", "pdf", library("weasyprint"))
    from weasyprint import HTML
    header = truth.leave("header", "Tidewater Trust, annual report")
    footer = truth.leave("footer", "Not for resale")
    body = []
    for number, title in enumerate(["What we did", "What it cost", "What comes next"], 1):
        text = prose(400 + number, 14)
        body.append(f"<h1>{truth.say(title)}</h1><p>{truth.say(text)}</p>")
        truth.page(number, title, phrase(text, 2))
    head = ["Item", "Planned", "Spent"]
    rows = [["Sails", "1,200", "1,340"], ["Ropes", "430", "395"], ["Timber", "2,850", "3,010"]]
    truth.table(head, rows)
    cells = "".join("<tr>" + "".join(f"<td>{text}</td>" for text in row) + "</tr>" for row in rows)
    body[1] += "<table><tr>" + "".join(f"<th>{text}</th>" for text in head) + f"</tr>{cells}</table>"
    style = (f"@page {{ size: A5; margin: 2cm; @top-center {{ content: '{header}' }}"
             f"@bottom-left {{ content: '{footer}' }}"
             "@bottom-right { content: counter(page) ' / ' counter(pages) } }"
             "h1 { break-before: page; font-size: 14pt } td, th { padding: 2pt 14pt; text-align: left }"
             "body { font-family: 'Liberation Sans'; font-size: 10pt } h1:first-child { break-before: auto }")
    HTML(string=f"<html lang=en><style>{style}</style><body>{''.join(body)}").write_pdf(truth.path)


def web_hyphens():
    """A narrow column: soft hyphens break long words at line ends, and a compound keeps its own hyphen."""
    truth = Truth("weasy-hyphens.pdf", "pdf", library("weasyprint"))
    from weasyprint import HTML
    paragraphs = ["Die Ge\u00adnos\u00adsen\u00adschaft der Bootsbauer hat ihre "
                  "Stra\u00adßen\u00adbe\u00adleuch\u00adtung und die Was\u00adser\u00adver\u00adsor\u00adgung "
                  "er\u00adneu\u00adert. Nie\u00admand hat die Ver\u00adwal\u00adtungs\u00adkos\u00adten "
                  "vor\u00adher ge\u00adschätzt.",
                  "The com\u00admit\u00adtee un\u00adder\u00ades\u00adti\u00admat\u00aded the "
                  "trans\u00adpor\u00adta\u00adtion of heavy ma\u00adchin\u00adery and the "
                  "ac\u00adcom\u00admo\u00adda\u00adtion of ap\u00adpren\u00adtices.",
                  "A half-timbered house in Nord-Ostsee style has a well-known, weather-beaten gate."]
    for text in paragraphs:
        truth.say(text.replace("\u00ad", ""))
    truth.joined += WEASY_BROKEN
    truth.page(1, "der Bootsbauer hat ihre")
    body = "".join(f"<p>{text}</p>" for text in paragraphs)
    style = ("@page { size: A5; margin: 2cm } body { width: 3.6cm; text-align: justify; font-size: 11pt;"
             "font-family: 'Liberation Serif' }")
    HTML(string=f"<style>{style}</style><body>{body}").write_pdf(truth.path)


WEASY_BROKEN = ["Straßenbeleuchtung", "Wasserversorgung", "Verwaltungskosten", "underestimated", "transportation",
                "machinery", "accommodation", "apprentices"]


def browser_print():
    """A web page with a table, printed from a browser: its own head and foot lines are off."""
    truth = Truth("chromium-table.pdf", "pdf", "Chromium " + version("chromium", "--version"))
    head = ["Départ", "Platform", "Arrives", "Price €", "Remark"]
    rows = [["06:12", "4", "08:55", "31.20", ""], ["07:40", "2", "10:31", "44.90", "no bicycles"],
            ["09:05", "4", "11:48", "38.00", "buffet car, change at Osnabrück"], ["12:30", "1", "15:02", "29.90", ""],
            ["16:18", "3", "19:07", "52.40", "seat reservation needed"]]
    title = truth.say("Trains to the coast")
    intro = truth.say("Prices are for one grown-up without luggage; children travel at half price.")
    after = truth.say("Lost tickets are not replaced, whatever the conductor may have said.")
    truth.table(head, rows)
    cells = "".join("<tr>" + "".join(f"<td>{text}</td>" for text in row) + "</tr>" for row in rows)
    style = ("body{font-family:'Liberation Sans';font-size:13px} table{border-collapse:collapse} "
             "td,th{padding:4px 10px;border-bottom:1px solid #999;text-align:left}")
    heads = "".join(f"<th>{text}</th>" for text in head)
    source = WORK / "trains.html"
    source.write_text(f"<!doctype html><meta charset=utf-8><title>{title}</title><style>{style}</style>"
                      f"<h1>{title}</h1><p>{intro}</p><table><thead><tr>{heads}</tr></thead>"
                      f"<tbody>{cells}</tbody></table><p>{after}</p>", encoding="utf-8")
    run("chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={WORK}/chromium-profile",
        "--no-pdf-header-footer", f"--print-to-pdf={truth.path}", f"file://{source}")
    truth.page(1, "children travel at half price", "Lost tickets are not replaced")


def make():
    for part in (long_table, two_tables, columns_office, picture_page, footnotes, landscape, columns_groff,
                 web_report, web_hyphens, browser_print):
        part()


if __name__ == "__main__":
    FILES.mkdir(exist_ok=True)
    WORK.mkdir(exist_ok=True)
    make()
