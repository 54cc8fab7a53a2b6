"""The collector as one file that any Python ≥ 3.8 runs: `python3 probe.pyz` prints JSON. Needs nothing
installed on the node.
"""

from __future__ import annotations

import importlib.metadata
import io
import zipfile
from functools import cache
from pathlib import Path

_TOP = Path(__file__).resolve().parents[2]
_MODULES = (
    "schemas/hardware/cpulist.py",
    "schemas/hardware/gpu_health.py",
    "schemas/hardware/sysfs/*.py",
    "providers/probe/collect/*.py",
)
_PACKAGES = ("schemas", "schemas/hardware", "providers", "providers/probe")
_MAIN = "import sys\nfrom providers.probe.collect.{} import main\nsys.exit(main())\n"
_SOME_DATE = (2020, 1, 1, 0, 0, 0)


@cache
def build(*, inside: bool = False) -> bytes:
    """The zipapp, the same bytes every time for the same sources. `inside`: for a container, which has no
    library of NVIDIA's to ask."""
    entries = {f"{package}/__init__.py": b"" for package in _PACKAGES}
    for pattern in _MODULES:
        entries.update({path.relative_to(_TOP).as_posix(): path.read_bytes() for path in _TOP.glob(pattern)})
    if not inside:
        entries["pynvml.py"] = _pynvml()
    entries["__main__.py"] = _MAIN.format("inside" if inside else "main").encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(entries):
            archive.writestr(zipfile.ZipInfo(name, _SOME_DATE), entries[name], zipfile.ZIP_DEFLATED)
    return b"#!/usr/bin/env python3\n" + packed.getvalue()


def _pynvml() -> bytes:
    """The module of the nvidia-ml-py that is installed here."""
    return Path(str(importlib.metadata.distribution("nvidia-ml-py").locate_file("pynvml.py"))).read_bytes()
