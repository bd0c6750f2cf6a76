"""Documents and slides of office programs, and a book."""
import docx
from docx.enum.text import WD_BREAK
from docx.shared import Pt
from ebooklib import epub
from odf import style, text as odf_text, draw
from odf.opendocument import OpenDocumentText
from PIL import Image
from pptx import Presentation
from pptx.util import Cm

from fileset import FILES, WORK, Truth, library, office, office_name, prose, run, version
from make_pdf import new_document, word_table


def minutes():
    """Merged cells both ways, a heading with numbered items, and text at the head and foot of every page."""
    truth = Truth("minutes.docx", "office", library("python-docx"))
    document = new_document()
    section = document.sections[0]
    section.header.paragraphs[0].text = truth.leave("header", "Lighthouse society, confidential")
    section.footer.paragraphs[0].text = truth.leave("footer", "Printed on recycled paper")
    document.add_heading(truth.say("Minutes of the spring meeting"), 1)
    for item in ("Open the meeting", "Choose a treasurer", "Sell the old winch"):
        document.add_paragraph(truth.say(item), style="List Number")
    head = ["Room", "Day", "From", "Until"]
    rows = [["Tower", "Monday", "08:15", "11:40"], [None, "Thursday", "13:05", "16:50"],
            ["Cellar", "Tuesday", "09:30", "10:45"], [None, "Friday", "14:20", "18:10"], ]
    table = word_table(document, head, [["" if cell is None else cell for cell in row] for row in rows])
    table.cell(1, 0).merge(table.cell(2, 0)).text = "Tower"
    table.cell(3, 0).merge(table.cell(4, 0)).text = "Cellar"
    truth.table(head, rows, key=1)
    last = table.add_row().cells
    last[0].merge(last[3]).text = truth.say("The gallery stays closed because of the swallows.")
    document.add_paragraph(truth.say("Henriette Åkerström wrote this down."))
    document.save(truth.path)


def review():
    """Tracked changes and comments; a hidden paragraph. What was deleted is not what the author says now."""
    truth = Truth("review.docx", "office", "pandoc " + version("pandoc", "--version") + ", " + library("python-docx"))
    author = 'author="Solveig" date="2026-02-03T10:00:00Z"'
    remark = truth.leave("comment", "Please ask the surveyor first")
    gone = truth.leave("deleted text", "forty wagons")
    source = (f"# The wall\n\nThe wall takes [{gone}]{{.deletion {author}}}"
              f"[thirty-one barrows]{{.insertion {author}}} of stone and must stand by "
              f"[{remark}]{{.comment-start id=\"1\" {author}}}Whitsun[]{{.comment-end id=\"1\"}}.\n\n"
              "It begins at the pear tree.\n")
    truth.say("The wall\nThe wall takes thirty-one barrows of stone and must stand by Whitsun.")
    truth.say("It begins at the pear tree.")
    run("pandoc", "-f", "markdown", "--track-changes=all", "-o", WORK / "review.docx", stdin=source.encode())
    document = docx.Document(WORK / "review.docx")
    hidden = document.add_paragraph().add_run(truth.leave("hidden text", "The neighbours know nothing of this yet."))
    hidden.font.hidden = True
    document.add_paragraph(truth.say("It ends at the well."))
    document.save(truth.path)


def essay():
    """Notes below the text, lists within lists, and a quotation."""
    truth = Truth("essay.odt", "office", "pandoc " + version("pandoc", "--version"))
    source = ("# On keeping geese\n\nGeese are awake before the dog.[^1] They dislike umbrellas.\n\n"
              "- Feed\n    - barley in the morning\n    - grass all day\n- Water\n    1. a trough\n    2. a pond\n\n"
              "> Whoever keeps geese needs no bell.\n\n## Costs\n\nA gosling costs eleven crowns.[^2]\n\n"
              "[^1]: Observed at Læsø over two winters.\n\n[^2]: Without the basket.\n")
    for line in source.replace("[^1]:", "").replace("[^2]:", "").splitlines():
        bare = line.replace("[^1]", "").replace("[^2]", "").strip("#-> ")
        truth.say(bare[3:] if bare[:3] in ("1. ", "2. ") else bare)
    truth.words = [line for line in truth.words if line]
    run("pandoc", "-f", "markdown", "-o", truth.path, stdin=source.encode())


def flyer():
    """Text in a box beside the text, which many converters never see. Saved by an office program."""
    truth = Truth("text-box.docx", "office", library("odfpy") + ", " + office_name())
    book = OpenDocumentText()
    frame_style = style.Style(name="Box", family="graphic")
    frame_style.addElement(style.GraphicProperties(wrap="parallel", border="0.05cm solid #000000"))
    book.automaticstyles.addElement(frame_style)
    book.text.addElement(odf_text.H(outlinelevel=1, text=truth.say("Flea market in the riding hall")))
    paragraph = odf_text.P(text=truth.say("Doors open at nine, and dealers pay for a table."))
    frame = draw.Frame(stylename=frame_style, width="6cm", height="3cm", anchortype="paragraph", x="10cm", y="1cm")
    box = draw.TextBox()
    box.addElement(odf_text.P(text=truth.say("Bring coins, since nobody takes cards.")))
    frame.addElement(box)
    paragraph.addElement(frame)
    book.text.addElement(paragraph)
    book.text.addElement(odf_text.P(text=truth.say("Soup is served from noon.")))
    book.save(WORK / "text-box.odt")
    office(WORK / "text-box.odt", "docx", truth.path)


def nested():
    """A table in a cell of a table, in the old binary format."""
    truth = Truth("nested-table.doc", "office", library("python-docx") + ", " + office_name())
    document = new_document()
    document.add_heading(truth.say("Kitchen of the hostel"), 1)
    head = ["Meal", "Cook", "Guests"]
    rows = [["Breakfast", "Ottilie", "18"], ["Supper", "Rasmus", "27"]]
    truth.table(head, rows)
    table = word_table(document, head, rows)
    cells = table.add_row().cells
    cells[0].text, cells[1].text = truth.say("Picnic"), truth.say("Ségolène")
    truth.cells.append([head[1], "Picnic", "Ségolène"])
    inner = [["Bread", "6 loaves"], ["Cheese", "2 kg"]]
    small = cells[2].add_table(rows=0, cols=2)
    for row in inner:
        truth.say(" ".join(row))
        for cell, value in zip(small.add_row().cells, row):
            cell.text = value
    document.add_paragraph(truth.say("Leftovers belong to the goat."))
    document.save(WORK / "nested.docx")
    office(WORK / "nested.docx", "doc", truth.path)


def handbook():
    """Lists, a table and letters beyond ASCII in rich text."""
    truth = Truth("handbook.rtf", "office", library("python-docx") + ", " + office_name())
    document = new_document()
    document.add_heading(truth.say("Handbook for the sauna"), 1)
    for item in ("Wash before you enter", "Sit on a towel", "Leave after twelve minutes"):
        document.add_paragraph(truth.say(item), style="List Bullet")
    head = ["Tag", "Öffnet", "Schließt"]
    rows = [["Dienstag", "16 Uhr", "21 Uhr"], ["Samstag", "14 Uhr", "22 Uhr"], ["Sonntag", "10 Uhr", "19 Uhr"]]
    truth.table(head, rows)
    word_table(document, head, rows)
    paragraph = document.add_paragraph(truth.say("Für Gäste kostet der Besuch 9 € — auch für Ängstliche."))
    paragraph.runs[0].add_break(WD_BREAK.LINE)
    paragraph.add_run(truth.say("Ring twice at the blue door.")).bold = True
    document.save(WORK / "handbook.docx")
    office(WORK / "handbook.docx", "rtf", truth.path)


def slide(deck, title, layout=1):
    made = deck.slides.add_slide(deck.slide_layouts[layout])
    made.shapes.title.text = title
    return made


def slides_notes():
    """Speaker notes, a table, and a slide that is not shown."""
    truth = Truth("plans.pptx", "slides", library("python-pptx"))
    deck = Presentation()
    first = slide(deck, truth.say("Plans for the windmill"))
    first.placeholders[1].text = truth.say("New sails by August") + "\n" + truth.say("Flour for two villages")
    first.notes_slide.notes_text_frame.text = truth.leave("notes", "Thank the carpenter by name")
    second = slide(deck, truth.say("What it takes"), 5)
    head = ["Work", "Days", "Crowns"]
    rows = [["Carpentry", "14", "2600"], ["Painting", "5", "480"], ["Rigging", "3", "350"]]
    truth.table(head, rows)
    shape = second.shapes.add_table(len(rows) + 1, len(head), Cm(2), Cm(5), Cm(20), Cm(5))
    for y, row in enumerate([head] + rows):
        for x, value in enumerate(row):
            shape.table.cell(y, x).text = value
    last = slide(deck, truth.leave("hidden slide", "If the money runs out"))
    last.placeholders[1].text = truth.leave("hidden slide", "Sell the millstones")
    last._element.set("show", "0")
    deck.save(truth.path)


def slides_groups():
    """Text in shapes that are grouped, twice over, and a picture."""
    truth = Truth("groups.pptx", "slides", library("python-pptx"))
    deck = Presentation()
    page = slide(deck, truth.say("From sheep to scarf"), 5)
    group = page.shapes.add_group_shape()
    for x, text in enumerate(("Shear in June", "Wash in rainwater")):
        group.shapes.add_textbox(Cm(2 + 6 * x), Cm(6), Cm(5), Cm(2)).text_frame.text = truth.say(text)
    inner = group.shapes.add_group_shape()
    inner.shapes.add_textbox(Cm(14), Cm(6), Cm(5), Cm(2)).text_frame.text = truth.say("Spin by the stove")
    Image.new("RGB", (120, 80), (90, 120, 60)).save(WORK / "meadow.png")
    page.shapes.add_picture(str(WORK / "meadow.png"), Cm(5), Cm(10))
    truth.leave("picture", "meadow.png")
    page = slide(deck, truth.say("Colours"), 1)
    page.placeholders[1].text = truth.say("Walnut gives brown")
    deeper = page.placeholders[1].text_frame.add_paragraph()
    deeper.text, deeper.level = truth.say("two hours in the pot"), 1
    deeper.font.size = Pt(20)
    deck.save(truth.path)


def slides_open():
    """The same kinds of things in the open format, saved by an office program."""
    truth = Truth("lecture.odp", "slides", office_name())
    deck = Presentation()
    first = slide(deck, truth.say("Bees in the city"))
    first.placeholders[1].text = truth.say("Roofs are warm") + "\n" + truth.say("Lindens bloom until July")
    first.notes_slide.notes_text_frame.text = truth.leave("notes", "Show the empty comb now")
    second = slide(deck, truth.say("Honey by roof"), 5)
    head, rows = ["Roof", "Hives", "Kilos"], [["Opéra", "6", "141"], ["Rådhus", "4", "97"], ["Börse", "3", "58"]]
    truth.table(head, rows)
    shape = second.shapes.add_table(len(rows) + 1, len(head), Cm(2), Cm(5), Cm(20), Cm(5))
    for y, row in enumerate([head] + rows):
        for x, value in enumerate(row):
            shape.table.cell(y, x).text = value
    deck.save(WORK / "lecture.pptx")
    office(WORK / "lecture.pptx", "odp", truth.path)


def book():
    """A book of three chapters with a table, whose contents list is there to click on."""
    truth = Truth("travels.epub", "office", library("ebooklib"))
    made = epub.EpubBook()
    made.set_identifier("travels-of-a-kettle")
    made.set_title(truth.say("Travels of a kettle"))
    made.set_language("en")
    made.add_author("Perpetua Quist")
    head, rows = ["Port", "Tea drunk", "Days"], [["Calais", "31 cups", "4"], ["Bergen", "58 cups", "9"]]
    truth.table(head, rows)
    cells = "".join("<tr>" + "".join(f"<td>{value}</td>" for value in row) + "</tr>" for row in rows)
    table = "<table><tr>" + "".join(f"<th>{name}</th>" for name in head) + f"</tr>{cells}</table>"
    chapters = []
    for number, title in enumerate(("The stove", "The sea", "The shelf"), 1):
        chapter = epub.EpubHtml(title=title, file_name=f"chapter{number}.xhtml", lang="en")
        text = prose(700 + number, 6)
        chapter.content = f"<h1>{truth.say(title)}</h1><p>{truth.say(text)}</p>{table if number == 2 else ''}"
        chapters.append(chapter)
        made.add_item(chapter)
    made.toc = chapters
    made.add_item(epub.EpubNcx())
    made.add_item(epub.EpubNav())
    made.spine = chapters
    epub.write_epub(str(truth.path), made)


def make():
    for part in (minutes, review, essay, flyer, nested, handbook, slides_notes, slides_groups, slides_open, book):
        part()


if __name__ == "__main__":
    FILES.mkdir(exist_ok=True)
    WORK.mkdir(exist_ok=True)
    make()
