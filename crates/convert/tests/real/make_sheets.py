"""Workbooks and files of comma-separated values."""
import csv
import datetime
import io

import openpyxl
import xlsxwriter
from openpyxl.styles import Font

from fileset import FILES, WORK, Truth, library, office, office_name


def widen(sheet):
    """Columns wide enough to show what is in them: a date that does not fit is shown as ###."""
    for letter in "ABCDEFGH":
        sheet.column_dimensions[letter].width = 24


def title_above():
    """A title and an empty row above the head, a note at the side, dates and percents."""
    truth = Truth("title-above.xlsx", "sheet", library("openpyxl"))
    truth.sheets.append("Sailings")
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Sailings"
    sheet["A1"] = truth.say("Sailings to the outer islands, spring timetable")
    sheet["A1"].font = Font(bold=True, size=16)
    head = ["Sailing", "First day", "Seats", "Sold", "Fare"]
    data = [["Fanø north", datetime.date(2026, 3, 14), 120, 0.85, 12.5],
            ["Fanø south", datetime.date(2026, 3, 21), 90, 0.4, 11],
            ["Mandø", datetime.date(2026, 4, 2), 36, 0.975, 17.25],
            ["Île de Sein", datetime.date(2026, 4, 18), 64, 1, 31.9],
            ["Hooge", datetime.date(2026, 5, 9), 80, 0.125, 14]]
    sheet.append([])
    sheet.append(head)
    for row in data:
        sheet.append(row)
        last = sheet.max_row
        sheet.cell(last, 2).number_format = "yyyy-mm-dd"
        sheet.cell(last, 4).number_format = "0.0%"
        sheet.cell(last, 5).number_format = "0.00"
    for cell in sheet[3]:
        cell.font = Font(bold=True)
    sheet["H4"] = truth.say("Prices were agreed with the island council; ask Birgit before changing them.")
    widen(sheet)
    truth.table(head, [[row[0], row[1].isoformat(), str(row[2]), f"{row[3]:.1%}", f"{row[4]:.2f}"] for row in data])
    book.save(truth.path)


def merged():
    """Heads over two columns, and regions over several rows."""
    truth = Truth("merged.xlsx", "sheet", library("xlsxwriter"))
    truth.sheets.append("Harvest")
    book = xlsxwriter.Workbook(str(truth.path))
    sheet = book.add_worksheet("Harvest")
    bold = book.add_format({"bold": True, "align": "center", "valign": "vcenter", "border": 1})
    head = ["Region", "Orchard", "Apples kg", "Pears kg", "Apples crates", "Pears crates"]
    groups = [("Weighed", 2, 3), ("Shipped", 4, 5)]
    sheet.set_column("A:F", 18)
    sheet.merge_range("A1:A2", head[0], bold)
    sheet.merge_range("B1:B2", head[1], bold)
    for text, first, last in groups:
        sheet.merge_range(0, first, 0, last, text, bold)
    sheet.write_row(1, 2, head[2:], bold)
    rows = [["Altes Land", "Jork", 5120, 840, 212, 31], [None, "Steinkirchen", 4470, 655, 187, 26],
            [None, "Grünendeich", 3905, 720, 160, 29], ["Fyn", "Faaborg", 2210, 1310, 95, 52],
            [None, "Middelfart", 1875, 990, 78, 41]]
    for number, row in enumerate(rows, 2):
        sheet.write_row(number, 1, row[1:])
    sheet.merge_range("A3:A5", rows[0][0], bold)
    sheet.merge_range("A6:A7", rows[3][0], bold)
    truth.table(head, rows, key=1, groups=groups)
    book.close()


def bill(truth, title):
    """A bill whose amounts are formulas, without a value until a program computes them."""
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = truth.say(title)
    truth.sheets.append(title)
    head = ["Part", "Count", "Each", "Amount"]
    sheet.append(head)
    parts = [["Spokes", 72, 3], ["Saddles", 4, 145], ["Bells", 9, 28], ["Chains", 6, 61]]
    for number, row in enumerate(parts, 2):
        sheet.append(row + [f"=B{number}*C{number}"])
    widen(sheet)
    sheet.append(["All parts", "=SUM(B2:B5)", None, "=SUM(D2:D5)"])
    total = ["All parts", sum(row[1] for row in parts), "", sum(row[1] * row[2] for row in parts)]
    return book, head, parts, [row + [row[1] * row[2]] for row in parts] + [total]


def formulas_without_values():
    """As a program writes it that cannot compute: the file holds formulas only."""
    truth = Truth("formulas-uncached.xlsx", "sheet", library("openpyxl"))
    book, head, parts, _ = bill(truth, "Bicycles")
    truth.say("All parts")
    truth.table(head[:3], parts)
    truth.say(head[3])
    for number in range(2, 6):
        truth.leave("formula without value", f"B{number}*C{number}")
    truth.leave("formula without value", "SUM(D2:D5)")
    book.save(truth.path)


def formulas_with_values():
    """The same bill after an office program has computed and saved it, as xlsx and as ods."""
    for ending, title in (("xlsx", "Bicycles"), ("ods", "Fahrräder")):
        truth = Truth(f"formulas-saved.{ending}", "sheet", office_name())
        book, head, _, rows = bill(truth, title)
        truth.table(head, rows)
        book.save(WORK / "bill.xlsx")
        office(WORK / "bill.xlsx", ending, truth.path)


def hidden():
    """A hidden sheet, rows that a filter hides, and a hidden column."""
    truth = Truth("hidden.xlsx", "sheet", library("xlsxwriter"))
    book = xlsxwriter.Workbook(str(truth.path))
    sheet = book.add_worksheet("Members")
    truth.sheets.append("Members")
    head = ["Member", "Town", "Instrument", "Since"]
    rows = [["Ulrike Böhm", "Kiel", "viola", 2011], ["Mads Holm", "Odense", "cello", 2019],
            ["Inès Garnier", "Kiel", "oboe", 2004], ["Torben Friis", "Aarhus", "horn", 2022],
            ["Petra Lange", "Kiel", "flute", 2016]]
    shown = [row for row in rows if row[1] == "Kiel"]
    truth.table(head, shown)
    sheet.write_row(0, 0, head[:3] + ["Account"] + head[3:])
    for number, row in enumerate(rows, 1):
        account = f"DK{5400 + number * 37}"
        sheet.write_row(number, 0, row[:3] + [account] + row[3:])
        if row not in shown:
            sheet.set_row(number, options={"hidden": True})
            truth.leave("hidden row", row[0])
        else:
            truth.leave("hidden column", account)
    sheet.autofilter(0, 0, len(rows), 4)
    sheet.filter_column("B", "x == Kiel")
    sheet.set_column("A:E", 18)
    sheet.set_column("D:D", None, None, {"hidden": True})
    other = book.add_worksheet(truth.leave("hidden sheet", "Old bank data"))
    other.write_row(0, 0, ["Bank", truth.leave("hidden sheet", "Sparkasse Glücksburg")])
    other.hide()
    book.close()


def one_sheet():
    """An old binary workbook with one sheet, whose name says what the numbers are. Dates in German order."""
    truth = Truth("one-sheet.xls", "sheet", office_name())
    name = "Heizöl 2025 in Liter"
    truth.sheets.append(name)
    truth.say(name)
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = name
    head = ["Haus", "Gemessen am", "Menge", "Anteil"]
    data = [["Gärtnerei", datetime.date(2025, 11, 3), 1840, 0.46],
            ["Schloßküche", datetime.date(2025, 11, 4), 920, 0.23],
            ["Bücherei", datetime.date(2025, 11, 10), 1240, 0.31]]
    sheet.append(head)
    for row in data:
        sheet.append(row)
        sheet.cell(sheet.max_row, 2).number_format = "dd.mm.yyyy"
        sheet.cell(sheet.max_row, 3).number_format = "#,##0"
        sheet.cell(sheet.max_row, 4).number_format = "0%"
    widen(sheet)
    truth.table(head, [[row[0], f"{row[1]:%d.%m.%Y}", f"{row[2]:,}", f"{row[3]:.0%}"] for row in data])
    book.save(WORK / "one-sheet.xlsx")
    office(WORK / "one-sheet.xlsx", "xls", truth.path)


def two_tables():
    """Two tables on one sheet with an empty row between them, and a second sheet."""
    truth = Truth("two-tables.ods", "sheet", office_name())
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = truth.say("Regatta")
    head, rows = ["Boat", "Class", "Minutes"], [["Möwe", "A", 61], ["Aigle", "B", 66], ["Hejre", "A", 58]]
    more, others = ["Helper", "Task"], [["Greta", "buoys"], ["Loïc", "whistle"], ["Bent", "coffee"]]
    for row in [head] + rows + [[]] + [more] + others:
        sheet.append(row)
    truth.table(head, rows)
    truth.table(more, others)
    second = book.create_sheet(truth.say("Prizes"))
    head, rows = ["Place", "Prize"], [["first", "a brass compass"], ["second", "ten metres of rope"]]
    for row in [head] + rows:
        second.append(row)
    truth.table(head, rows)
    truth.sheets += ["Regatta", "Prizes"]
    for sheet in book:
        widen(sheet)
    book.save(WORK / "two-tables.xlsx")
    office(WORK / "two-tables.xlsx", "ods", truth.path)


def csv_bytes(rows, delimiter, encoding, before="", newline="\r\n"):
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator=newline).writerows(rows)
    return (before + text.getvalue()).encode(encoding)


def csv_separator_line():
    """A first line that tells the spreadsheet program which separator follows; decimal commas."""
    truth = Truth("separator-line.csv", "csv", "Python csv")
    head = ["Ware", "Menge", "Preis"]
    rows = [["Äpfel", "12", "3,40"], ["Birnen", "7", "4,15"], ["Nüsse, ganz", "3", "11,90"], ["Möhren", "20", "1,05"]]
    truth.table(head, rows)
    truth.path.write_bytes(csv_bytes([head] + rows, ";", "utf-8-sig", "sep=;\r\n"))
    truth.absent.append("sep=;")


def csv_preamble():
    """The export of a bank: lines about the account come before the head of the table."""
    truth = Truth("preamble.csv", "csv", "Python csv")
    before = [["Account:", "Garden club, current"], ["From:", "2026-01-01"], ["To:", "2026-01-31"], []]
    for row in before:
        truth.say(" ".join(row))
    head = ["Booked", "Name", "Purpose", "Amount", "Balance"]
    rows = [["2026-01-05", "Nordlys Seeds", "Invoice 3391", "-84.20", "1215.80"],
            ["2026-01-12", "Camille Roux", "Fee, plot 17", "45.00", "1260.80"],
            ["2026-01-19", "Water board", "Quarter", "-130.55", "1130.25"],
            ["2026-01-28", "Jens Møller", "Fee, plot 4", "45.00", "1175.25"]]
    truth.table(head, rows, key=1)
    truth.path.write_bytes(csv_bytes(before + [head] + rows, ",", "utf-8"))


def csv_western():
    """Saved by a spreadsheet program with semicolons in the Windows encoding of western Europe."""
    truth = Truth("western.csv", "csv", office_name())
    book = openpyxl.Workbook()
    head = ["Rue", "Maison", "Propriétaire", "Impôt €"]
    rows = [["Allée des Chênes", "3", "Hélène Lefèvre", "410"], ["Straße am Süßsee", "12 a", "Jörg Öztürk", "385"],
            ["Ærøgade", "7", "Åse Bjørn", "502"]]
    for row in [head] + rows:
        book.active.append(row)
    truth.table(head, rows)
    book.save(WORK / "western.xlsx")
    # Separator 59, quote 34, character set 1 (Windows-1252), from line 1.
    office(WORK / "western.xlsx", "csv:Text - txt - csv (StarCalc):59,34,1,1", truth.path)


def tsv_line_breaks():
    """Quoted line breaks, quotes and pipes in the cells of a tab-separated file."""
    truth = Truth("line-breaks.tsv", "csv", "Python csv")
    head = ["Ticket", "Reported", "Answer"]
    rows = [["T-81", "The door squeaks.\nIt also sticks.", "Oiled"],
            ["T-82", 'The sign says "closde"', "Painted anew"],
            ["T-83", "Fuse box: a|b|c", "Labelled\nand locked"], ["T-84", "Gutter", "Open"]]
    truth.table(head, rows)
    truth.path.write_bytes(csv_bytes([head] + rows, "\t", "utf-8", newline="\n"))


def make():
    for part in (title_above, merged, formulas_without_values, formulas_with_values, hidden, one_sheet, two_tables,
                 csv_separator_line, csv_preamble, csv_western, tsv_line_breaks):
        part()


if __name__ == "__main__":
    FILES.mkdir(exist_ok=True)
    WORK.mkdir(exist_ok=True)
    make()
