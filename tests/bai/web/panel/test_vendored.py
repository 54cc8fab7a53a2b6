"""What the panel takes from others is what is pinned, file by file; nothing else lies beside it."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[4]
PANEL = ROOT / "bai" / "web" / "panel"
PINNED = json.loads((PANEL / "vendored.json").read_text(encoding="utf-8"))


def test_every_vendored_file_is_the_pinned_one_and_there_are_no_others() -> None:
    there = [*(PANEL / "static" / "vendor").rglob("*"), PANEL / "templates" / "icons.svg"]
    found = {
        str(path.relative_to(PANEL)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in there
        if path.is_file()
    }
    assert found == PINNED["sha256"]


def test_every_package_is_pinned_and_its_licence_lies_beside_it() -> None:
    for package in PINNED["packages"]:
        assert package["integrity"].startswith("sha512-"), package["name"]
        assert package["licence"] in {"0BSD", "ISC AND MIT", "MIT"}
        assert f"static/vendor/{package['files']['LICENSE']}" in PINNED["sha256"]


def test_the_icons_are_those_that_are_named() -> None:
    text = (PANEL / "templates" / "icons.svg").read_text(encoding="utf-8")
    (named,) = [package["icons"] for package in PINNED["packages"] if "icons" in package]
    assert text.count("<symbol ") == len(named)
    assert [name for name in named if f'id="i-{name}"' not in text] == []


def archive(**files: bytes) -> bytes:
    """A package as registries have them."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as opened:
        for name, data in files.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(data)
            opened.addfile(entry, io.BytesIO(data))
    return written.getvalue()


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import vendor_web  # type: ignore[import-not-found]

    return vendor_web


def pins() -> dict[str, Any]:
    package = {"name": "some", "version": "1.0.0", "integrity": "", "files": {"LICENSE": "some.LICENSE"}}
    return {"packages": [package], "sha256": {}}


def test_what_is_pinned_is_fetched_again_and_anything_else_is_refused(script: Any, tmp_path: Path) -> None:
    good, bad = archive(LICENSE=b"as you like"), archive(LICENSE=b"give me your data")
    pinned = pins()
    script.vendor(pinned, tmp_path, lambda *_: good, pin=True)
    written = tmp_path / "static" / "vendor" / "some.LICENSE"
    assert written.read_bytes() == b"as you like"
    written.unlink()
    with pytest.raises(script.NotThePinnedError, match=r"some 1\.0\.0"):
        script.vendor(pinned, tmp_path, lambda *_: bad, pin=False)
    assert not written.exists()
    script.vendor(pinned, tmp_path, lambda *_: good, pin=False)
    assert written.read_bytes() == b"as you like"


def test_a_file_that_is_not_pinned_is_refused(script: Any, tmp_path: Path) -> None:
    good = archive(LICENSE=b"as you like", **{"more.js": b"1"})
    pinned = pins()
    script.vendor(pinned, tmp_path, lambda *_: good, pin=True)
    pinned["packages"][0]["files"]["more.js"] = "more.js"
    with pytest.raises(script.NotThePinnedError, match=r"more\.js"):
        script.vendor(pinned, tmp_path / "other", lambda *_: good, pin=False)
    assert not (tmp_path / "other").exists()
