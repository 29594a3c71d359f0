"""Shows reports on the terminal or in a notebook."""

from __future__ import annotations

import sys
from typing import Any


def show(report: Any) -> None:
    """Prints report.text(); in a notebook, shows the report."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if ipython is not None and hasattr(shell, "kernel"):
        ipython.display.display(report)
    else:
        print(report.text())
