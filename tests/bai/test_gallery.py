"""The gallery shows what its page says, and what is drawn now."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
GALLERY = ROOT / "docs/gallery"
PICTURES = sorted(GALLERY.rglob("*.svg"))
SCREENS = sorted(GALLERY.glob("screens/*.txt"))
SVG = "{http://www.w3.org/2000/svg}"


def test_the_gallery_is_fresh() -> None:
    made = subprocess.run(
        [sys.executable, "scripts/gallery.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stdout + made.stderr


def test_every_picture_is_on_the_page() -> None:
    shown = re.findall(r"\]\(gallery/([^)]+)\)", (ROOT / "docs/gallery.md").read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(str(path.relative_to(GALLERY)) for path in [*PICTURES, *SCREENS])


def box(item: ElementTree.Element) -> tuple[float, float, float]:
    """Left, right and base line of a text, generously measured."""
    size = 11 if "small" in (item.get("class") or "") else 13
    left = float(item.get("x", 0))
    return left, left + len(item.text or "") * size * 0.5, float(item.get("y", 0))


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_no_text_covers_another_or_leaves_the_picture(path: Path) -> None:
    root = ElementTree.parse(path).getroot()
    texts = sorted((box(item) for item in root.iter(f"{SVG}text")), key=lambda b: (b[2], b[0]))
    assert all(right <= float(root.get("width", 0)) for _, right, _ in texts)
    assert all(base <= float(root.get("height", 0)) for _, _, base in texts)
    for one, other in pairwise(texts):
        assert one[2] != other[2] or one[1] <= other[0], (one, other)
