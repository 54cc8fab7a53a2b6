"""Images of the lab, as archives that containerd imports: of the root file system that engines have."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.lab.cache import kept
from tests.lab.docker import IMAGE, image_tar

PAUSE = "bai-lab-pause:1"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_CONFIG: dict[str, dict[str, Any]] = {
    IMAGE: {"Cmd": ["/bin/sh"], "Env": ["PATH=/bin:/usr/bin"]},
    PAUSE: {"Entrypoint": ["/bin/sleep", "2147483647"]},
}


def archives() -> dict[str, Path]:
    """One for each image, by its full name, made once. Raises LabUnavailable."""
    root = kept("docker-image-1.tar", image_tar)
    name = "kubernetes-image-{}.tar"
    return {
        full_name(image): kept(name.format(image.replace(":", "-")), _archive(image, root))
        for image in _CONFIG
    }


def full_name(image: str) -> str:
    """As nodes know it."""
    return f"docker.io/library/{image}"


def _archive(image: str, root: Path) -> Callable[[Path], None]:
    """Of one layer, as `docker save` lays it out."""

    return lambda draft: write_archive(draft, full_name(image), root.read_bytes(), _CONFIG[image])


def write_archive(draft: Path, name: str, layer: bytes, config: dict[str, Any]) -> None:
    """An image of this one layer (a tar) by its full name."""
    digest = hashlib.sha256(layer).hexdigest()
    about = json.dumps(
        {
            "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
    ).encode()
    described = f"{hashlib.sha256(about).hexdigest()}.json"
    manifest = [{"Config": described, "RepoTags": [name], "Layers": [f"{digest}/layer.tar"]}]
    with tarfile.open(draft, "w") as archive:
        for path, content in (
            (described, about),
            (f"{digest}/layer.tar", layer),
            ("manifest.json", json.dumps(manifest).encode()),
        ):
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
