"""PDFs that a program draws piece by piece, forms, and scans."""
import io

from PIL import Image, ImageDraw, ImageFilter, ImageFont
from reportlab.lib import colors
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.utils import ImageReader
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import Paragraph, SimpleDocTemplate, Spacer, Table, TableStyle

from fileset import FILES, WORK, Truth, library, phrase, prose, run, version

FONTS = "/usr/share/fonts/truetype/liberation"
WIDTH, HEIGHT = A4


def canvas(truth, **more):
    return Canvas(str(truth.path), pagesize=A4, invariant=1, **more)


def filled(text, width, font="Helvetica", size=10):
    """The lines of a text in a column of that width."""
    lines, line = [], ""
    for word in text.split():
        wider = f"{line} {word}".strip()
        if pdfmetrics.stringWidth(wider, font, size) > width:
            lines.append(line)
            wider = word
        line = wider
    return lines + [line]


def columns_by_row():
    """Two columns whose lines are in the file row by row: left, right, left, right."""
    truth = Truth("rl-columns-by-row.pdf", "pdf", library("reportlab"))
    page = canvas(truth)
    page.setFont("Helvetica-Bold", 14)
    page.drawString(60, 790, truth.say("The two sides of the river"))
    page.setFont("Helvetica", 10)
    left, right = prose(501, 30), prose(502, 30)
    for row, pair in enumerate(zip(filled(left, 220), filled(right, 220))):
        for x, line in zip((60, 310), pair):
            page.drawString(x, 760 - 13 * row, line)
    for text in (left, right):
        lines = filled(text, 220)[:min(len(filled(left, 220)), len(filled(right, 220)))]
        truth.say("\n".join(lines))
        for row in (4, 15, 27):
            # The last words of a line and the first ones of the line below it.
            truth.page(1, " ".join(lines[row].split()[-3:] + lines[row + 1].split()[:3]))
    page.save()


def price_list():
    """A price list with many ruled columns; long names take two lines in their cell."""
    truth = Truth("rl-price-list.pdf", "pdf", library("reportlab"))
    head = ["No.", "Article", "Unit", "Net", "Gross", "Stock", "From 10"]
    names = ["Oak plank, planed on both sides and oiled", "Larch slat", "Copper nail, square, with a broad head",
             "Hemp rope", "Linseed oil, boiled", "Sailcloth", "Brass hinge, left", "Brass hinge, right",
             "Window putty in a tin with a lid", "Chalk paint, white", "Chalk paint, green", "Wool felt, 3 mm"]
    rows = []
    for i, name in enumerate(names):
        net = 320 + i * 217
        rows.append([f"{4010 + i * 3}", name, ["m", "piece", "kg", "tin"][i % 4], f"{net / 100:.2f}",
                     f"{net * 1.25 / 100:.2f}", str(7 + i * 11 % 60), f"{net * 0.9 / 100:.2f}"])
    truth.table(head, rows)
    title = truth.say("Prices of the timber yard")
    after = truth.say("All prices are in crowns. Goods are fetched within eight days.")
    small = ParagraphStyle("small", fontName="Helvetica", fontSize=9, leading=11)
    cells = [head] + [[row[0], Paragraph(row[1], small)] + row[2:] for row in rows]
    grid = TableStyle([("GRID", (0, 0), (-1, -1), 0.5, colors.black), ("FONTSIZE", (0, 0), (-1, -1), 9),
                       ("FONTNAME", (0, 0), (-1, 0), "Helvetica-Bold"), ("ALIGN", (3, 1), (-1, -1), "RIGHT"),
                       ("VALIGN", (0, 0), (-1, -1), "MIDDLE")])
    flow = [Paragraph(title, ParagraphStyle("title", fontName="Helvetica-Bold", fontSize=14)), Spacer(1, 14),
            Table(cells, colWidths=[36, 130, 40, 50, 50, 40, 56], style=grid, repeatRows=1), Spacer(1, 14),
            Paragraph(after, small)]
    SimpleDocTemplate(str(truth.path), pagesize=A4, invariant=1).build(flow)
    truth.page(1, "Goods are fetched within eight")


def rotated_table():
    """Page 2 is drawn sideways and marked as turned, as printer drivers do: it looks upright."""
    truth = Truth("rl-rotated-table.pdf", "pdf", library("reportlab") + ", qpdf " + version("qpdf", "--version"))
    draft = WORK / "rotated.pdf"
    page = Canvas(str(draft), pagesize=A4, invariant=1)
    page.setFont("Helvetica", 11)
    page.drawString(60, 780, truth.say("Rain was measured at five stations. The table is on the next page."))
    page.showPage()
    page.rotate(90)
    page.translate(0, -WIDTH)
    page.setFont("Helvetica-Bold", 13)
    page.drawString(60, 530, truth.say("Rain in millimetres, by station"))
    head = ["Station", "January", "March", "May", "July", "September", "November"]
    places = ["Ribe", "Husum", "Saint-Malo", "Whitby", "Rügen"]
    rows = [[place] + [str(23 + (i * 29 + k * 17) % 88) for k in range(6)] for i, place in enumerate(places)]
    truth.table(head, rows)
    grid = TableStyle([("LINEBELOW", (0, 0), (-1, 0), 1, colors.black), ("ALIGN", (1, 0), (-1, -1), "RIGHT")])
    table = Table([head] + rows, colWidths=90, style=grid)
    table.wrapOn(page, HEIGHT, WIDTH)
    table.drawOn(page, 60, 400)
    page.save()
    run("qpdf", "--deterministic-id", "--rotate=+90:2", draft, truth.path)
    truth.page(1, "was measured at five stations")
    truth.page(2, "Rain in millimetres, by station")


def form():
    """A form that was filled in: what was typed is in its fields, not in the text of the page."""
    truth = Truth("rl-form.pdf", "pdf", library("reportlab"))
    page = canvas(truth)
    page.setFont("Helvetica-Bold", 14)
    page.drawString(60, 780, truth.say("Application for an allotment"))
    page.setFont("Helvetica", 10)
    fields = [("Family name", "Brøndsted"), ("Street", "Kløvermarksvej 14"), ("Town", "Nykøbing"),
              ("Size wanted", "240 square metres"), ("Reason", "Beans, bees and a bench")]
    for row, (label, value) in enumerate(fields):
        y = 740 - 34 * row
        page.drawString(60, y, truth.say(label))
        page.acroForm.textfield(name=label.lower().replace(" ", "_"), value=truth.say(value), x=160, y=y - 6,
                                width=260, height=20, fontSize=10, borderWidth=1, relative=True)
    page.drawString(60, 560, truth.say("Water is wanted"))
    page.acroForm.checkbox(name="water", checked=True, x=160, y=556, size=14, relative=True)
    page.drawString(60, 520, truth.say("Sent to the garden office before the end of February."))
    page.save()
    truth.page(1, "Sent to the garden office")


def scanned(lines, size=30):
    """A picture of a typed sheet, a little grey, blurred and askew."""
    picture = Image.new("L", (1000, 1414), 248)
    draw = ImageDraw.Draw(picture)
    font = ImageFont.truetype(f"{FONTS}/LiberationSerif-Regular.ttf", size)
    for row, line in enumerate(lines):
        draw.text((90, 110 + row * int(size * 1.6)), line, fill=25, font=font)
    picture = picture.rotate(0.4, fillcolor=248, resample=Image.Resampling.BICUBIC)
    return picture.filter(ImageFilter.GaussianBlur(0.4)).quantize(8)


def searchable_scan():
    """A scan that a text recogniser put an invisible layer of text under."""
    truth = Truth("ocr-scan.pdf", "pdf", "tesseract " + version("tesseract", "--version"))
    pages = [["Minutes of the rowing club", "", "The boathouse will be painted in April.",
              "Anna brings the ladders, and Peter buys", "the brushes. The key hangs behind the door."],
             ["New members", "", "Three people joined in the autumn.", "The fee stays at forty crowns until the",
              "roof has been paid. Nobody was against it."]]
    names = []
    for number, lines in enumerate(pages, 1):
        truth.say("\n".join(lines))
        picture = WORK / f"scan-{number}.png"
        scanned(lines).save(picture, dpi=(120, 120), optimize=True)
        run("tesseract", picture, WORK / f"scan-{number}", "-l", "eng", "pdf")
        names.append(WORK / f"scan-{number}.pdf")
    run("qpdf", "--empty", "--deterministic-id", "--pages", *names, "--", truth.path)
    truth.page(1, "boathouse will be painted in")
    truth.page(2, "Three people joined in the")


def letter_and_scan():
    """A letter that can be read before two scanned pages that no recogniser has seen."""
    truth = Truth("letter-and-scan.pdf", "pdf", library("reportlab"))
    pdfmetrics.registerFont(TTFont("Serif", f"{FONTS}/LiberationSerif-Regular.ttf"))
    page = canvas(truth)
    page.setFont("Serif", 11)
    lines = ["Dear Ms Thorvaldsen,", "please find enclosed the two receipts for the sledge, which I had",
             "repaired in Großenbrode. The amount is 84 crowns in all.", "Yours sincerely, Étienne Morel"]
    for row, line in enumerate(lines):
        page.drawString(70, 760 - 18 * row, truth.say(line))
    page.showPage()
    for receipt in (["Receipt 118", "New runner, left", "46 crowns"], ["Receipt 121", "Varnish", "38 crowns"]):
        data = io.BytesIO()
        scanned(receipt, size=36).convert("L").resize((560, 792)).save(data, "JPEG", quality=40)
        page.drawImage(ImageReader(data), 0, 0, WIDTH, HEIGHT)
        page.showPage()
    page.save()
    truth.page(1, "enclosed the two receipts for")
    truth.leave("page without text", "2")
    truth.leave("page without text", "3")


def old_report():
    """A report by PostScript and Ghostscript: fixed columns of figures that nothing but blanks hold apart."""
    truth = Truth("gs-figures.pdf", "pdf", "groff " + version("groff", "--version") + ", Ghostscript "
                  + version("gs", "--version"))
    head = ["Lamp", "Lit", "Out", "Oil"]
    rows = [["Skagen", "17:05", "07:40", "12.5"], ["Hirtshals", "17:10", "07:45", "9.8"],
            ["Bovbjerg", "17:20", "07:30", "11.0"], ["Blåvand", "17:15", "07:35", "10.4"]]
    truth.table(head, rows)
    title, before, after = "Lamps of the west coast", "Times are those of the keeper's own clock.", prose(601, 5)
    for text in (title, before, after):
        truth.say(text)
    table = "\n".join("\t".join(row) for row in [head] + rows)
    source = f".SH\n{title}\n.PP\n{before}\n.TS\ncenter;\nlb lb lb lb\nl l l n.\n{table}\n.TE\n.PP\n{after}\n"
    post = run("groff", "-ms", "-k", "-t", "-Tps", stdin=source.encode())
    run("gs", "-q", "-dBATCH", "-dNOPAUSE", "-sDEVICE=pdfwrite", f"-sOutputFile={truth.path}", "-", stdin=post)
    truth.page(1, "those of the keeper's own", phrase(after, 2))


def make():
    for part in (columns_by_row, price_list, rotated_table, form, searchable_scan, letter_and_scan, old_report):
        part()


if __name__ == "__main__":
    FILES.mkdir(exist_ok=True)
    WORK.mkdir(exist_ok=True)
    make()
