"""Fetches what the control panel takes from npm packages, as `bai/web/panel/vendored.json` pins it: packages
by version and integrity, each file by its SHA-256. Needs npm.

    python scripts/vendor_web.py          # writes the files; a package that is not the pinned one is refused
    python scripts/vendor_web.py --pin    # after another version is written into vendored.json: pins it
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

PANEL = Path(__file__).resolve().parent.parent / "bai" / "web" / "panel"
SPRITE = "templates/icons.svg"
"""All icons as symbols, which pages hold themselves: not every browser's policy lets `use` fetch a file."""
_SVG = "http://www.w3.org/2000/svg"


class NotThePinnedError(Exception):
    """A package or a file of it is another than `vendored.json` says."""


def pack(name: str, version: str) -> bytes:
    """The package as the registry has it, a .tgz. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", "--silent", "--ignore-scripts", f"{name}@{version}"]
        done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
        return (Path(folder) / done.stdout.split()[-1]).read_bytes()


def integrity(archive: bytes) -> str:
    """As lock files of npm have it."""
    return "sha512-" + base64.b64encode(hashlib.sha512(archive).digest()).decode()


def taken(package: Mapping[str, Any], archive: bytes) -> dict[str, bytes]:
    """What the panel takes from a package, by its path in the panel's folder. Raises KeyError for what is not
    in it."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:

        def read(inside: str) -> bytes:
            member = opened.extractfile(f"package/{inside}")
            if member is None:
                raise KeyError(inside)
            return member.read()

        found = {f"static/vendor/{to}": read(inside) for inside, to in package["files"].items()}
        if icons := package.get("icons"):
            found[SPRITE] = sprite({name: read(f"icons/{name}.svg").decode() for name in icons})
    return found


def sprite(icons: Mapping[str, str]) -> bytes:
    """One picture of symbols `i-NAME`, each drawn in the colour of the text around it."""
    ET.register_namespace("", _SVG)
    symbols = []
    for name, text in sorted(icons.items()):
        shapes = (ET.tostring(shape, encoding="unicode") for shape in ET.fromstring(text))
        inside = "".join(re.sub(r' xmlns="[^"]*"|\s*\n\s*', "", shape).strip() for shape in shapes)
        symbols.append(f'<symbol id="i-{name}" viewBox="0 0 24 24">{inside}</symbol>\n')
    return f'<svg xmlns="{_SVG}" class="sprite" aria-hidden="true">\n{"".join(symbols)}</svg>\n'.encode()


def vendor(pinned: dict[str, Any], folder: Path, fetch: Callable[[str, str], bytes], *, pin: bool) -> None:
    """Writes the files into `folder`; `pin` writes their digests into `pinned` in place of comparing them.
    Raises NotThePinnedError, before anything is written."""
    files: dict[str, bytes] = {}
    for package in pinned["packages"]:
        archive = fetch(package["name"], package["version"])
        if pin:
            package["integrity"] = integrity(archive)
        elif package["integrity"] != integrity(archive):
            raise NotThePinnedError(f"{package['name']} {package['version']} is not the pinned package")
        files |= taken(package, archive)
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())}
    if pin:
        pinned["sha256"] = digests
    elif pinned["sha256"] != digests:
        changed = sorted(name for name, _ in digests.items() ^ pinned["sha256"].items())
        raise NotThePinnedError(f"not the pinned files: {', '.join(dict.fromkeys(changed))}")
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--pin", action="store_true", help="write what is fetched into vendored.json")
    pin = parser.parse_args().pin
    pins = PANEL / "vendored.json"
    pinned = json.loads(pins.read_text(encoding="utf-8"))
    try:
        vendor(pinned, PANEL, pack, pin=pin)
    except NotThePinnedError as error:
        sys.exit(str(error))
    if pin:
        pins.write_text(json.dumps(pinned, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
