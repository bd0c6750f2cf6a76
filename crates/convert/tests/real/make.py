"""Makes the files of the set and their truth: venv/bin/python make.py"""
import shutil

import make_office
import make_pdf
import make_pdf_drawn
import make_sheets
import make_web_mail
from fileset import FILES, WORK, write_truth


def main():
    for folder in (FILES, WORK):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    for part in (make_pdf, make_pdf_drawn, make_sheets, make_office, make_web_mail):
        part.make()
    write_truth()
    sizes = {path.name: path.stat().st_size for path in FILES.iterdir()}
    print(f"{len(sizes)} files, {sum(sizes.values()) // 1024} KB, the largest {max(sizes.values()) // 1024} KB")


if __name__ == "__main__":
    main()
