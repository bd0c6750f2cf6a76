#!/bin/sh
# Makes the set, reads it with each reader and prints the scores.
#   ./measure.sh [TREE_AGENT_BINARY]
# Without a binary only the other readers are measured. FILES=keep leaves the files of the set as they are.
# Debian packages: libreoffice-writer libreoffice-calc libreoffice-impress chromium groff ghostscript qpdf pandoc
# tesseract-ocr tesseract-ocr-eng poppler-utils fonts-liberation
set -eu
cd "$(dirname "$0")"

# install VENV PIP_ARGUMENTS...: once; a venv without its mark was left half-made.
install() {
    venv=$1
    shift
    [ -f "$venv/ready" ] && return
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet "$@"
    touch "$venv/ready"
}

if [ "${FILES:-}" != keep ]; then
    install venv -r requirements.txt
    venv/bin/python make.py
    venv/bin/python check.py
fi

if [ $# -gt 0 ]; then
    python3 read_base.py "$1" out/base
fi

install venv-markitdown 'markitdown[all]'
venv-markitdown/bin/python read_markitdown.py out/markitdown 2>/dev/null

if [ ! -f venv-unstructured/ready ]; then
    install venv-unstructured 'unstructured[docx,doc,odt,rtf,pptx,xlsx,csv,tsv,epub]' pdfminer.six pdf2image pikepdf \
        pi-heif pypdf pypdfium2 scipy opencv-python-headless unstructured.pytesseract
    # Without its dependencies, which are gigabytes: see read_unstructured.py.
    venv-unstructured/bin/pip install --quiet --no-deps unstructured-inference
fi
venv-unstructured/bin/python read_unstructured.py out/unstructured 2>/dev/null

for reader in base markitdown unstructured; do
    [ -d "out/$reader" ] || continue
    echo
    echo "$reader"
    # markitdown has no marks of pages: its phrases are looked for in the whole text.
    python3 score.py "out/$reader" $([ "$reader" = markitdown ] && echo --no-pages)
done
