"""The programs of a cluster, built from Go's modules: once, and kept by what they were built from."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

from tests.lab.cache import LabUnavailable, forget_unused, kept

SOURCES = Path(__file__).parent / "go"
PROGRAM = "kubernetes-lab"
APPLETS = (
    "etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager", "kubelet", "kubectl", "containerd",
    "ctr", "coredns", "kwok", "kwok-stages", "gpu-standin", "plugin-standin",
    "cpu-standin", "nri-cpuset",
)  # fmt: skip
_PLUGINS = "github.com/containernetworking/plugins/plugins"
_CNI = (f"{_PLUGINS}/main/bridge", f"{_PLUGINS}/ipam/host-local")
_TAGS = "no_btrfs,no_devmapper,no_zfs"
_LAST_LINES = 30
_LONGEST = 3600
"""Seconds for one command of Go."""


class BuildFailed(Exception):
    """Go is here, and what it says of the sources."""


def go(sources: Path = SOURCES) -> str:
    """The path of a Go that is new enough for these sources. Raises LabUnavailable."""
    needed = _required(sources)
    found = shutil.which("go", path=os.environ.get("PATH", "") + ":/usr/local/go/bin")
    if found is None:
        raise LabUnavailable(f"Go {needed} or later is needed (https://go.dev/dl); there is none")
    version = _say([found, "env", "GOVERSION"], cwd=Path("/")).strip()
    if _numbers(version) < _numbers(needed):
        raise LabUnavailable(f"Go {needed} or later is needed (https://go.dev/dl); this is {version}")
    return found


def binaries(sources: Path = SOURCES) -> Path:
    """A folder with `APPLETS`, containerd's shim, and CNI plugins in `cni/`. Raises LabUnavailable where they
    cannot be built, BuildFailed where they could have been."""
    compiler = go(sources)
    version = _say([compiler, "env", "GOVERSION"], cwd=Path("/"))
    name = f"kubernetes-{_digest(sources, version)}"
    made = kept(name, lambda draft: _build(draft, sources, compiler))
    forget_unused(made, "kubernetes-????????????????")
    return made


def _digest(sources: Path, version: str) -> str:
    digest = hashlib.sha256(repr((version, APPLETS, _CNI, _flags(sources))).encode())
    for path in sorted(sources.rglob("*")):
        if path.is_file():
            digest.update(f"\0{path.relative_to(sources)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _build(draft: Path, sources: Path, compiler: str) -> None:
    (draft / "cni").mkdir(parents=True)
    flags = _flags(sources)
    targets = ((PROGRAM, ["."]), ("containerd-shim-runc-v2", ["./shim"]), ("cni/", list(_CNI)))
    for name, packages in targets:
        output = f"{draft}/{name}"
        _say([compiler, "build", *flags, "-o", output, *packages], cwd=sources)
    for applet in APPLETS:
        (draft / applet).symlink_to(PROGRAM)


def _flags(sources: Path) -> list[str]:
    """Programs tell their versions as releases do: kubelets and schedulers go by them."""
    kubernetes, containerd = _module(sources, "k8s.io/kubernetes"), _module(sources, "containerd/v2")
    _, minor, _ = (kubernetes or "v0.0.0").split(".")
    values = {
        "k8s.io/component-base/version.gitVersion": kubernetes,
        "k8s.io/component-base/version.gitMajor": "1",
        "k8s.io/component-base/version.gitMinor": minor,
        "k8s.io/component-base/version.gitTreeState": "clean",
        "k8s.io/client-go/pkg/version.gitVersion": kubernetes,
        "github.com/containerd/containerd/v2/version.Version": containerd,
    }
    linked = " ".join(["-s", "-w", *(f"-X {name}={value}" for name, value in values.items())])
    return ["-trimpath", "-tags", _TAGS, "-ldflags", linked]


def _module(sources: Path, name: str) -> str:
    """The version of a module that go.mod names; empty when it names none."""
    found = re.search(rf"^\s*\S*{re.escape(name)} (v\S+)", (sources / "go.mod").read_text(), re.MULTILINE)
    return found[1] if found else ""


def _required(sources: Path) -> str:
    found = re.search(r"^go (\S+)$", (sources / "go.mod").read_text(), re.MULTILINE)
    assert found, "go.mod says for which Go it is"
    return found[1]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


def _say(argv: list[str], *, cwd: Path) -> str:
    """What a command prints. Raises BuildFailed."""
    environment = {**os.environ, "CGO_ENABLED": "0"}
    done = subprocess.run(
        argv, cwd=cwd, env=environment, check=False, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_LONGEST,
    )  # fmt: skip
    if done.returncode:
        last = "\n".join(done.stdout.splitlines()[-_LAST_LINES:])
        raise BuildFailed(f"{' '.join(argv[-3:])} in {cwd}:\n{last}")
    return done.stdout


if __name__ == "__main__":
    with contextlib.suppress(LabUnavailable):
        binaries()
