"""What all generated pages share."""

from __future__ import annotations

MADE = "<!-- Written by scripts/gen_docs.py; change the code it follows from, then `make generate`. -->\n"


def escaped(text: str) -> str:
    """For a table's cell; what stands in backticks is shown as it is."""
    pieces = text.replace("|", "\\|").split("`")
    return "`".join(piece if at % 2 else piece.replace("<", "&lt;") for at, piece in enumerate(pieces))
