"""Whether a security advisory names what requirements/server.txt locks.

BAI_ADVISORIES says where to look: a folder of OSV records (the unpacked `PyPI/all.zip` of osv.dev), or
`osv.dev` itself, which pip-audit asks. What others publish is no reason for a run to fail that passed before:
without it nothing is asked. Ends with 0: none does; 1: some do, or the folder is no database; 77: there is no
database, and nothing was looked at.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from locked import Locked, read_locked
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements/server.txt"
NOTHING_TO_ASK = 77
SERVICE = "osv.dev"
_SERVICE = "https://api.osv.dev/v1/query"
_KNOWN_BAD = {"package": {"ecosystem": "PyPI", "name": "jinja2"}, "version": "2.4.1"}
"""An answer that does not know these advisories is no answer of that service."""


def in_folder(folder: Path, locked: Sequence[Locked]) -> Iterator[str]:
    """A line for each advisory that names a locked version. Raises ValueError where there is no record."""
    by_name = {each.name: each for each in locked}
    files = sorted(folder.rglob("*.json"))
    if not files:
        raise ValueError(f"{folder} has no OSV records (*.json)")
    for path in files:
        try:
            record = json.loads(path.read_bytes())
            affected = [] if record.get("withdrawn") else record.get("affected", [])
            for entry in affected:
                package = entry.get("package", {})
                each = by_name.get(canonicalize_name(package.get("name", "")))
                if package.get("ecosystem") == "PyPI" and each and names(entry, each.version):
                    yield f"{each.name} {each.version}: {record['id']} {record.get('summary', '')}".rstrip()
                    break
        except (ValueError, AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"{path} is no OSV record: {error!r}") from None


def names(entry: Mapping[str, Any], version: str) -> bool:
    """Whether an `affected` entry means this version: the evaluation of
    https://ossf.github.io/osv-schema/#evaluation."""
    if version in entry.get("versions", ()):
        return True
    ranges = [each for each in entry.get("ranges", ()) if each.get("type") == "ECOSYSTEM"]
    return any(_within(each["events"], Version(version)) for each in ranges)


def _within(events: Sequence[Mapping[str, str]], version: Version) -> bool:
    inside = False
    for event in sorted(events, key=_when):
        kind, at = next(iter(event.items()))
        if kind == "introduced" and (at == "0" or version >= Version(at)):
            inside = True
        elif (kind == "fixed" and version >= Version(at)) or (
            kind == "last_affected" and version > Version(at)
        ):
            inside = False
    return inside


def _when(event: Mapping[str, str]) -> tuple[Version, bool]:
    kind, at = next(iter(event.items()))
    try:
        return Version(at), kind != "introduced"
    except InvalidVersion:
        raise ValueError(f"{at} is no version") from None


def _answers() -> bool:
    request = urllib.request.Request(_SERVICE, json.dumps(_KNOWN_BAD).encode())
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return bool(json.loads(answer.read(2**22)).get("vulns"))
    except (OSError, ValueError, AttributeError):
        return False


def by_service() -> list[str] | None:
    """None where it answers no more."""
    audit = [
        sys.executable,
        "-m",
        "pip_audit",
        "-r",
        str(LOCK),
        "--require-hashes",
        "--disable-pip",
        "--strict",
    ]
    audit += ["-s", "osv", "-f", "json", "--progress-spinner", "off", "--timeout", "10"]
    try:
        done = subprocess.run(audit, stdin=subprocess.DEVNULL, capture_output=True, timeout=200, check=False)
        found = json.loads(done.stdout)["dependencies"]
    except (subprocess.TimeoutExpired, ValueError, KeyError):
        return None
    return [f"{each['name']} {each['version']}: {v['id']}" for each in found for v in each.get("vulns", ())]


def main() -> int:
    place = os.environ.get("BAI_ADVISORIES")
    if not place:
        print("no database: BAI_ADVISORIES names neither a folder nor osv.dev")
        return NOTHING_TO_ASK
    try:
        if place != SERVICE:
            lines: list[str] | None = list(in_folder(Path(place), read_locked(LOCK)))
        else:
            lines = by_service() if _answers() else None
    except ValueError as error:
        print(f"advisories: {error}")
        return 1
    if lines is None:
        print(f"no database: {SERVICE} does not answer")
        return NOTHING_TO_ASK
    print("\n".join(lines) or "no advisory names what is locked")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
