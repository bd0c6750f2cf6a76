"""Tests of the scorer: python3 -m unittest test_score"""
import unittest

from score import judge_cell, score_file
from tables import read_tables

TABLE = "| Boat | Fee | Metres |\n|---|---|---|\n| Perle | 255 | 6.1 |\n| Skarv, old | 230 | 5.5 |\n"


def judged(text, *cell):
    return judge_cell(read_tables(text), *cell)


def faults(truth, text, no_pages=False):
    return score_file(dict({"words": ""}, **truth), text, no_pages)[1]


class Cells(unittest.TestCase):
    def test_right_wrong_and_lost(self):
        self.assertEqual(judged(TABLE, "Fee", "Perle", "255"), "right")
        self.assertEqual(judged(TABLE, "Metres", "Perle", "255"), "wrong")
        self.assertEqual(judged(TABLE, "Fee", "Perle", "230"), "lost")
        self.assertEqual(judged(TABLE, "Fee", "Skarv", "230"), "right")

    def test_a_list_is_no_table(self):
        self.assertEqual(judged("Boat: Perle, Fee: 255", "Fee", "Perle", "255"), "lost")
        self.assertEqual(judged("```\n" + TABLE + "```\n", "Fee", "Perle", "255"), "lost")

    def test_two_columns_in_one_cell_are_lost(self):
        text = "| Boat | Fee Metres |\n|---|---|\n| Perle | 255 6.1 |\n"
        self.assertEqual(judged(text, "Fee", "Perle", "255"), "lost")

    def test_heads_in_a_second_row(self):
        text = "| Boat | Paid | Paid |\n|---|---|---|\n| Boat | 2024 May | 2024 June |\n| Perle | 5 | 6 |\n"
        self.assertEqual(judged(text, "2024 June", "Perle", "6"), "below")
        self.assertEqual(judged(text, "Paid", "Perle", "6"), "right")
        self.assertEqual(judged(text, "2024 May", "Perle", "6"), "wrong")
        self.assertEqual(judged(text.replace("| Paid | Paid", "| Paid | "), "Paid", "Perle", "6"), "wrong")

    def test_marks_and_escapes(self):
        text = "| **Item** | Note |\n|:--|--:|\n| \\#4 | a\\|b<br>c\\_d[^1] |\n"
        self.assertEqual(judged(text, "Note", "#4", "a|b\nc_d"), "right")

    def test_numbers_and_dates(self):
        text = "| Day | Sum | Part |\n|---|---|---|\n| 2026-03-14 00:00:00 | 1840 | 85% |\n"
        self.assertEqual(judged(text, "Sum", "2026-03-14", "1,840"), "right")
        self.assertEqual(judged(text, "Part", "1840", "85.0%"), "right")
        self.assertEqual(judged(text, "Part", "1840", "0.85"), "lost")
        self.assertEqual(judged(text, "Day", "1840", "14.03.2026"), "right")


class Texts(unittest.TestCase):
    def test_words(self):
        self.assertEqual(faults({"words": "Ein süßer *Kuchen*"}, "# Ein **süßer** Kuchen"), [])
        self.assertEqual(faults({"words": "a cake a day"}, "a cake day"), ["words missing: a"])

    def test_pages(self):
        truth = {"pages": [["two small boats", 2]]}
        self.assertEqual(faults(truth, "<!-- Page 1 -->\none\n<!-- Page 2 -->\ntwo small\nboats"), [])
        self.assertEqual(len(faults(truth, "<!-- Page 1 -->\ntwo small boats\n<!-- Page 2 -->\n")), 1)
        self.assertEqual(faults(truth, "two small boats", no_pages=True), [])

    def test_asides(self):
        truth = {"aside": [["hidden sheet", "Old data"], ["page without text", "2"]]}
        self.assertEqual(len(faults(truth, "x")), 2)
        self.assertEqual(faults(truth, "[A hidden sheet was left out. No text on page 2.]"), [])
        self.assertEqual(faults(truth, "## Old data\n<!-- Page 2 -->\n![a drawing]()"), [])

    def test_absent_and_joined(self):
        truth = {"absent": ["Accept all biscuits"], "joined": ["machinery"]}
        self.assertEqual(faults(truth, "fine machinery"), [])
        self.assertEqual(len(faults(truth, "Accept [all](x) biscuits, ma-\nchinery")), 2)


if __name__ == "__main__":
    unittest.main()
