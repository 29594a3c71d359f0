#!/usr/bin/env python3
"""Writes the reference of the Python package to FOLDER/slipstream.html: scripts/reference.py FOLDER

The package is that on PYTHONPATH, for example build/python.
"""

import re
import sys
from pathlib import Path

import pdoc
import pdoc.docstrings
import slipstream

TEMPLATES = Path(__file__).resolve().parents[1] / "docs" / "reference"
# Modules that have the name of a public function.
HIDDEN = ("!slipstream.capture", "!slipstream.doctor", "!slipstream.verify", "!slipstream.watch")


def write(folder: Path) -> None:
    # Otherwise pdoc would show only sections that are called "Arguments" as lists.
    pdoc.docstrings.GOOGLE_LIST_SECTIONS += re.findall(r"Arguments .+(?=:\n)", slipstream.Trainer.__doc__ or "")
    pdoc.render.configure(docformat="google", show_source=False, template_directory=TEMPLATES)
    pdoc.pdoc("slipstream", *HIDDEN, output_directory=folder)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
