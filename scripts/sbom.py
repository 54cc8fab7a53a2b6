"""Bills of materials in CycloneDX 1.6: of the wheel, and of the image of deploy/container/Containerfile.

    scripts/sbom.py wheel dist/bai.cdx.json
    scripts/sbom.py image IMAGE dist/bai-image.cdx.json

The wheel's names what requirements/run.txt locks, with the hashes of the files that may be installed. The
image's names what lies in the image: Python distributions and Debian packages. Same input, same bytes: the
serial number follows from the content, and there is a time only where SOURCE_DATE_EPOCH gives one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tomllib
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.dependency import Dependency
from cyclonedx.output.json import JsonV1Dot6
from locked import Locked, read_locked
from packageurl import PackageURL
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
_SPACE = uuid.uuid5(uuid.NAMESPACE_URL, "urn:bai:sbom")
# Runs inside of the image, by its own interpreter.
_LOOK = """
import importlib.metadata, json, pathlib
release = pathlib.Path("/etc/os-release")
status = pathlib.Path("/var/lib/dpkg/status")
print(json.dumps({
    "python": sorted({(each.name, each.version) for each in importlib.metadata.distributions()}),
    "release": release.read_text() if release.exists() else "",
    "status": status.read_text() if status.exists() else "",
}))
"""


def wheel(project: Mapping[str, Any], locked: Iterable[Locked]) -> Bom:
    """`project` is the table of pyproject.toml."""
    name, version = project["name"], project["version"]
    main = Component(
        name=name, version=version, type=ComponentType.APPLICATION, purl=_pypi(name, version), bom_ref=name
    )
    return _bom(main, [_distribution(each) for each in locked])


def image(name: str, digest: str, seen: Mapping[str, Any]) -> Bom:
    """`seen` is what `_LOOK` printed in the image whose configuration has this digest."""
    main = Component(name=name, version=digest, type=ComponentType.CONTAINER, bom_ref=f"image:{digest}")
    python = [
        Component(name=each, version=version, type=ComponentType.LIBRARY, purl=purl, bom_ref=str(purl))
        for each, version in seen["python"]
        for purl in [_pypi(each, version)]
    ]
    return _bom(main, [*python, *debian(seen["status"], seen["release"])])


def debian(status: str, release: str) -> list[Component]:
    """The installed packages of a dpkg status file. `release` is the text of /etc/os-release."""
    facts = dict(line.split("=", 1) for line in release.splitlines() if "=" in line)
    system = facts.get("ID", "debian").strip('"')
    distro = f"{system}-{facts['VERSION_ID'].strip(chr(34))}" if "VERSION_ID" in facts else system
    found = []
    for paragraph in status.split("\n\n"):
        lines = (line for line in paragraph.splitlines() if ": " in line and not line.startswith(" "))
        fields = dict(line.split(": ", 1) for line in lines)
        if fields.get("Status", "").split()[-1:] != ["installed"]:
            continue
        purl = PackageURL(
            "deb",
            system,
            fields["Package"],
            fields["Version"],
            {"arch": fields["Architecture"], "distro": distro},
        )
        found.append(
            Component(
                name=fields["Package"],
                version=fields["Version"],
                type=ComponentType.LIBRARY,
                purl=purl,
                bom_ref=str(purl),
            )
        )
    return found


def written(bom: Bom) -> str:
    """The JSON, the same for the same content."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    bom.metadata.timestamp = datetime.fromtimestamp(int(epoch), UTC) if epoch else None  # type: ignore[assignment]
    bom.serial_number = uuid.UUID(int=0)
    bom.serial_number = uuid.uuid5(_SPACE, _text(bom))
    return _text(bom)


def _text(bom: Bom) -> str:
    value = json.loads(JsonV1Dot6(bom).output_as_string())
    return json.dumps(value, indent=2, sort_keys=True) + "\n"


def _bom(main: Component, parts: list[Component]) -> Bom:
    bom = Bom(components=parts)
    bom.metadata.component = main
    bom.dependencies.add(Dependency(main.bom_ref, [Dependency(each.bom_ref) for each in parts]))
    return bom


def _distribution(locked: Locked) -> Component:
    purl = _pypi(locked.name, locked.version)
    files = [
        ExternalReference(
            type=ExternalReferenceType.DISTRIBUTION,
            url=XsUri(str(purl)),
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=each)],
        )
        for each in locked.hashes
    ]
    return Component(
        name=locked.name,
        version=locked.version,
        type=ComponentType.LIBRARY,
        purl=purl,
        bom_ref=str(purl),
        external_references=files,
        properties=[Property(name="bai:marker", value=locked.marker)] if locked.marker else [],
    )


def _pypi(name: str, version: str) -> PackageURL:
    return PackageURL("pypi", name=canonicalize_name(name), version=version)


def _look(name: str) -> tuple[str, Mapping[str, Any]]:
    """Digest of the image's configuration, and what is in it; the program inside has no network."""
    digest = _docker("image", "inspect", "--format", "{{.Id}}", name).strip()
    inside = ("--rm", "--network", "none", "--entrypoint", "python3")
    return digest, json.loads(_docker("run", *inside, digest, "-I", "-c", _LOOK))


def _docker(*words: str) -> str:
    done = subprocess.run(["docker", *words], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        sys.exit(f"sbom: docker {words[0]}: {done.stderr.strip()}")
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    kinds = parser.add_subparsers(dest="kind", required=True)
    kinds.add_parser("wheel", help="what requirements/run.txt locks")
    kinds.add_parser("image", help="what lies in an image that the local engine has").add_argument("image")
    for each in kinds.choices.values():
        each.add_argument("out", type=Path, help="file to write")
    given = parser.parse_args()
    if given.kind == "wheel":
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        bom = wheel(project, read_locked(ROOT / "requirements/run.txt"))
    else:
        bom = image(given.image, *_look(given.image))
        if not bom.components:
            sys.exit(f"sbom: {given.image} has neither Python distributions nor a list of Debian packages")
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(written(bom))
    print(f"{given.out}: {len(bom.components)} components")


if __name__ == "__main__":
    main()
