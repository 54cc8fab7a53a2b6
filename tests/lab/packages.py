"""Small packages in any versions, in an apt repository: stand-ins for what Debian does not have.

repository = Repository(nodes.shared / "nvidia")
repository.add(Package("nvidia-driver", "550.90.07-1", depends="libnvidia (= 550.90.07-1)"))
repository.publish()
repository.file_uri                # file:///srv/lab/nvidia, as every node of the lab has it
repository.serve(nodes.mirror)     # http://.../nvidia
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.lab.apt_mirror import AptMirror
from tests.lab.cache import command, tool
from tests.lab.nspawn import SHARED

SUITE = "stable"
_EPOCH = "1700000000"


@dataclass(frozen=True)
class Package:
    """What goes into a package. `files`: path → text, those that begin with `#!` are executable; `scripts`:
    `postinst`, `prerm`, ... → text."""

    name: str
    version: str
    depends: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    scripts: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, str] = field(default_factory=dict)
    """Further control fields, such as `Provides`."""
    architecture: str = "amd64"

    @property
    def file(self) -> str:
        return f"{self.name}_{self.version.partition(':')[2] or self.version}_{self.architecture}.deb"

    def control(self) -> str:
        fields = {
            "Package": self.name,
            "Version": self.version,
            "Architecture": self.architecture,
            "Maintainer": "the lab <lab@localhost>",
            "Depends": self.depends,
            "Description": "stand-in of the test lab",
            **self.more,
        }
        return "".join(f"{name}: {value}\n" for name, value in fields.items() if value)

    def build(self, folder: Path) -> Path:
        """Write the package into a folder. Raises LabUnavailable."""
        root = folder / f".{self.file}"
        try:
            self._put(root / "DEBIAN/control", self.control())
            for name, text in self.scripts.items():
                self._put(root / "DEBIAN" / name, text)
                (root / "DEBIAN" / name).chmod(0o755)
            for name, text in self.files.items():
                self._put(root / name.lstrip("/"), text)
            command(
                ["env", f"SOURCE_DATE_EPOCH={_EPOCH}", tool("dpkg-deb"), "--root-owner-group", "-Znone",
                 "--build", str(root), str(folder / self.file)]
            )  # fmt: skip
        finally:
            shutil.rmtree(root, ignore_errors=True)
        return folder / self.file

    @staticmethod
    def _put(path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        path.write_text(text)
        path.chmod(0o755 if text.startswith("#!") else 0o644)


class Repository:
    """An apt repository in a folder: suite `stable`, component `main`, not signed (`trusted`).

    A folder under the lab's `shared` is seen by every node, at `file_uri`.
    """

    def __init__(self, folder: Path, *, origin: str = "lab") -> None:
        self.folder = folder
        self.origin = origin
        self.pool = folder / "pool"
        self.pool.mkdir(parents=True, exist_ok=True)

    @property
    def file_uri(self) -> str:
        return f"file://{SHARED}/{self.folder.name}"

    def line(self, uri: str = "") -> str:
        """The line of a `sources.list`."""
        return f"deb [trusted=yes] {uri or self.file_uri} {SUITE} main\n"

    def add(self, *packages: Package) -> None:
        """They are offered from the next `publish` on."""
        for package in packages:
            package.build(self.pool)

    def remove(self, packages: Iterable[Package]) -> None:
        for package in packages:
            (self.pool / package.file).unlink(missing_ok=True)

    def publish(self) -> None:
        """Write the indexes for what is in the pool now. Raises LabUnavailable."""
        binary = self.folder / f"dists/{SUITE}/main/binary-amd64"
        binary.mkdir(parents=True, exist_ok=True)
        archive = tool("apt-ftparchive")
        listed = command([archive, "packages", "pool"], cwd=self.folder)
        _replace(binary / "Packages", listed)
        described = {"Suite": SUITE, "Codename": SUITE, "Components": "main", "Architectures": "amd64"}
        options = [
            f"-oAPT::FTPArchive::Release::{name}={value}"
            for name, value in {**described, "Origin": self.origin, "Label": self.origin}.items()
        ]
        (self.folder / f"dists/{SUITE}/Release").unlink(missing_ok=True)
        release = command([archive, *options, "release", f"dists/{SUITE}"], cwd=self.folder)
        _replace(self.folder / f"dists/{SUITE}/Release", release)

    def serve(self, mirror: AptMirror) -> str:
        """Have the lab's web server offer it as well; the address."""
        mirror.routes[self.folder.name] = self.folder
        return f"{mirror.url}/{self.folder.name}"


def _replace(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}")
    draft.write_text(text)
    os.replace(draft, path)
