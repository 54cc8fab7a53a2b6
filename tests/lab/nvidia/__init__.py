"""NVIDIA's packages as far as roles can tell, in any versions, for nodes without a GPU.

    repository = Repository(nodes.shared / "nvidia")
    repository.add(*driver("580.95.05"), *toolkit("1.18.0"), *gds("1.11.1.6", "2.22.3", cuda="12.6"))
    repository.publish()

Names, dependencies and versions are those of NVIDIA's repository for Debian 12. What they install are
stand-ins (`files/`): a module whose loaded version changes with a boot only, nvidia-smi that fails when it is
not its library's, and so on. `/etc/fake-nvidia/gpus` has the number of GPUs (2 when it is not there),
`/etc/fake-nvidia/nvswitch` makes an NVSwitch appear, `/run/fake-nvidia/busy` keeps every GPU busy.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

from tests.lab.nvidia.library import shared_library
from tests.lab.packages import Package

FILES = Path(__file__).parent / "files"
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
UNITS = "/usr/lib/systemd/system"
_DOUBLE = Path(__file__).parents[2] / "providers/gpu/double.py"


def _file(name: str) -> str:
    return (FILES / name).read_text()


def _unit(what: str, start: str, *more: str, after: str = "") -> str:
    service = "\n".join(("Type=oneshot", f"ExecStart={start}", *more))
    head = f"[Unit]\nDescription={what}\n" + (f"After={after}\n" if after else "")
    return f"{head}[Service]\n{service}\n[Install]\nWantedBy=multi-user.target\n"


def driver(version: str) -> Iterator[Package]:
    """Everything of one driver version, both flavours of modules."""
    full = f"{version}-1"
    yield from (_kernel(version, flavour) for flavour in ("open", "proprietary"))
    yield _library("libnvidia-ml1", f"libnvidia-ml.so.{version}", "libnvidia-ml.so.1", full)
    yield _library("libcuda1", f"libcuda.so.{version}", "libcuda.so.1", full)
    yield from _tools(version)
    start = "/bin/sh -c 'nvidia-smi -L >/dev/null && touch /run/fake-nvidia/persistenced'"
    stop = ("RemainAfterExit=yes", "ExecStop=rm -f /run/fake-nvidia/persistenced")
    unit = _unit("NVIDIA Persistence Daemon", start, *stop, after="fake-nvidia.service")
    yield Package("nvidia-persistenced", full, "", {f"{UNITS}/nvidia-persistenced.service": unit})


def _tools(version: str) -> Iterator[Package]:
    """One package from branch 560 on, two before."""
    full = f"{version}-1"
    need = f"libnvidia-ml1 (= {full}), libcuda1 (= {full})"
    tools = {"/usr/bin/nvidia-smi": _file("nvidia-smi.py"), "/usr/lib/fake-nvidia/library": version}
    double = f"#!/usr/bin/python3\n{_DOUBLE.read_text()}"
    mps = {f"/usr/bin/nvidia-cuda-mps-{name}": double for name in ("control", "server")}
    if int(version.partition(".")[0]) >= 560:
        clash = "nvidia-smi, nvidia-cuda-mps"
        more = {"Conflicts": clash, "Replaces": clash}
        yield Package("nvidia-driver-cuda", full, need, {**tools, **mps}, more=more)
    else:
        more = {"Conflicts": "nvidia-driver-cuda", "Replaces": "nvidia-driver-cuda"}
        yield Package("nvidia-smi", full, need, tools, more=more)
        yield Package("nvidia-cuda-mps", full, need, mps, more=more)


def _kernel(version: str, flavour: str) -> Package:
    name, other = "nvidia-kernel-open-dkms", "nvidia-kernel-dkms"
    if flavour == "proprietary":
        name, other = other, name
    load = _unit("Load the module nvidia", "/usr/lib/fake-nvidia/load", "RemainAfterExit=yes")
    files = {
        "/usr/lib/fake-nvidia/module": f"{version} {flavour}\n",
        "/usr/lib/fake-nvidia/load": _file("load.sh"),
        "/usr/local/sbin/modprobe": _file("modprobe.sh"),
        "/usr/local/sbin/modinfo": _file("modinfo.sh"),
        f"{UNITS}/fake-nvidia.service": load,
    }
    wants = "/etc/systemd/system/multi-user.target.wants"
    link = f"#!/bin/sh\nmkdir -p {wants}\nln -sf {UNITS}/fake-nvidia.service {wants}/\n"
    return Package(
        name, f"{version}-1", "", files, {"postinst": link}, {"Conflicts": other, "Replaces": other}
    )


def _library(name: str, file: str, link: str, version: str) -> Package:
    """A library's file is no text: it is unpacked when the package is configured."""
    encoded = base64.b64encode(shared_library(link)).decode()
    put = f"#!/bin/sh\necho {encoded} | base64 -d >{LIBRARIES}/{file}\nldconfig\n"
    gone = f"#!/bin/sh\nrm -f {LIBRARIES}/{file}\nldconfig\n"
    return Package(name, version, "", {}, {"postinst": put, "prerm": gone})


def headers(kernel: str) -> Package:
    """Of the kernel that runs here, whichever it is."""
    files = {f"/lib/modules/{kernel}/build/Makefile": "all:\n"}
    return Package(f"linux-headers-{kernel}", "6.1-1", "", files)


def fabric_manager(version: str) -> Package:
    """Named as the branch demands."""
    branch = int(version.partition(".")[0])
    unit = (
        "[Unit]\nDescription=NVIDIA fabric manager\nAfter=fake-nvidia.service\n[Service]\n"
        "ExecStart=/usr/bin/nv-fabricmanager\n[Install]\nWantedBy=multi-user.target\n"
    )
    files = {
        "/usr/bin/nv-fabricmanager": _file("nv-fabricmanager.sh"),
        "/usr/lib/fake-nvidia/fabricmanager": version,
        "/usr/share/nvidia/nvswitch/fabricmanager.cfg": "LOG_LEVEL=4\nFABRIC_MODE=0\nFABRIC_MODE_RESTART=0\n",
        f"{UNITS}/nvidia-fabricmanager.service": unit,
    }
    name = "nvidia-fabricmanager" if branch >= 580 else f"nvidia-fabricmanager-{branch}"
    more = dict.fromkeys(("Provides", "Conflicts", "Replaces"), "fabricmanager")
    return Package(name, f"{version}-1", "", files, more=more)


def toolkit(version: str) -> Iterator[Package]:
    """The four packages; from 1.18 on with units that keep the CDI specification fresh."""
    full = f"{version}-1"
    yield Package("libnvidia-container1", full)
    yield Package("libnvidia-container-tools", full, f"libnvidia-container1 (>= {full})")
    files = {
        "/usr/bin/nvidia-ctk": _file("nvidia-ctk.py"),
        "/usr/lib/fake-nvidia/toolkit": version,
        "/etc/nvidia-container-runtime/config.toml": '[nvidia-container-runtime]\nmode = "auto"\n',
    }
    if tuple(map(int, version.split(".")[:2])) >= (1, 18):
        files.update(_refresh())
    yield Package("nvidia-container-toolkit-base", full, "", files)
    need = f"nvidia-container-toolkit-base (= {full}), libnvidia-container-tools (>= {full})"
    yield Package("nvidia-container-toolkit", full, need)


def _refresh() -> dict[str, str]:
    start = "/usr/bin/nvidia-ctk cdi generate --output=/var/run/cdi/nvidia.yaml"
    watched = "[Path]\nPathChanged=/usr/bin/nvidia-ctk\n[Install]\nWantedBy=multi-user.target\n"
    return {
        f"{UNITS}/nvidia-cdi-refresh.service": _unit(
            "Refresh the CDI file", start, after="fake-nvidia.service"
        ),
        f"{UNITS}/nvidia-cdi-refresh.path": f"[Unit]\nDescription=Trigger the refresh\n{watched}",
    }


def gds(version: str, nvidia_fs: str, *, cuda: str) -> Iterator[Package]:
    """Tools and library of one CUDA release, and the module."""
    release = cuda.replace(".", "-")
    tool = f"/usr/local/cuda-{cuda}/gds/tools/gdscheck"
    yield Package(f"libcufile-{release}", f"{version}-1")
    yield Package(f"gds-tools-{release}", f"{version}-1", "", {tool: _file("gdscheck.py")})
    module = {"/usr/lib/fake-nvidia/nvidia_fs": f"{nvidia_fs}\n"}
    yield Package("nvidia-fs-dkms", f"{nvidia_fs}-1", "", module)
    yield Package("nvidia-fs", f"{nvidia_fs}-1", f"nvidia-fs-dkms (= {nvidia_fs}-1)")
