"""Kernel and headers, and what there is for an operating system.

Sources: NVIDIA's driver installation guide (precompiled kernel modules: RHEL and Ubuntu only); MLNX_OFED's
release notes (Debian 12 since 23.10, Ubuntu 24.04 since 24.04, last release 24.10); the distributions.
"""

from __future__ import annotations

from collections.abc import Iterator

from schemas.problems.issues import Issue, Loc
from schemas.profile import NodeProfileSpec
from schemas.profile.versions.version_numbers import is_older, version_numbers

_FIRST_OFED = {"debian-12": "23.10", "ubuntu-24.04": "24.04"}
_LAST_OFED = (24, 10)


def rules(spec: NodeProfileSpec) -> Iterator[Issue]:
    """Everything that the operating system does not have, or that does not fit its kernel."""
    yield from _kernel_rules(spec)
    yield from _source_rules(spec)
    yield from _precompiled_rules(spec)
    yield from _engine_rules(spec)
    yield from _ofed_rules(spec)


def _kernel_rules(spec: NodeProfileSpec) -> Iterator[Issue]:
    kernel = spec.base.kernel if spec.base else None
    if kernel is None:
        return
    at: Loc = ("spec", "base", "kernel")
    if kernel.headers and kernel.headers != kernel.version:
        message = f"headers {kernel.headers} are not those of kernel {kernel.version}: no module can be built"
        yield Issue((*at, "headers"), message, "leave headers out", "BAI-V069")
    enterprise = ".el" in kernel.version
    if enterprise != (spec.os == "rhel-9") or (enterprise and ".el9" not in kernel.version):
        example = "5.14.0-427.13.1.el9_4.x86_64" if spec.os == "rhel-9" else "6.8.0-45-generic"
        message = f"{kernel.version} is not a kernel of {spec.os}"
        yield Issue((*at, "version"), message, f"give one such as {example}", "BAI-V070")


def _source_rules(spec: NodeProfileSpec) -> Iterator[Issue]:
    sources = spec.repositories
    if sources is None:
        return
    wrong, right = ("apt", "yum") if spec.os == "rhel-9" else ("yum", "apt")
    if getattr(sources, wrong):
        message = f"{spec.os} does not read sources of {wrong}"
        yield Issue(("spec", "repositories", wrong), message, f"write {right}", "BAI-V070", key=True)


def _precompiled_rules(spec: NodeProfileSpec) -> Iterator[Issue]:
    driver = spec.nvidia_driver
    if driver is None or driver.build != "precompiled":
        return
    at: Loc = ("spec", "nvidiaDriver", "build")
    if spec.os == "debian-12":
        message = "there are no precompiled kernel modules for Debian"
        yield Issue(at, message, "write dkms", "BAI-V070")
    elif spec.base is None or spec.base.kernel is None:
        message = "precompiled kernel modules are for one kernel, and none is named"
        yield Issue(at, message, "add base.kernel.version, or write dkms", "BAI-V069")


def _engine_rules(spec: NodeProfileSpec) -> Iterator[Issue]:
    if spec.docker is not None and spec.docker.package == "docker.io" and spec.os == "rhel-9":
        message = "docker.io is a package of Debian and Ubuntu"
        yield Issue(("spec", "docker", "package"), message, "write docker-ce", "BAI-V070")


def _ofed_rules(spec: NodeProfileSpec) -> Iterator[Issue]:
    rdma = spec.rdma
    if rdma is None or rdma.stack != "mlnx-ofed" or rdma.version is None:
        return
    at: Loc = ("spec", "rdma", "version")
    if version_numbers(rdma.version)[:2] > _LAST_OFED:
        message = f"there is no MLNX_OFED {rdma.version}: 24.10 was the last, DOCA-OFED goes on"
        yield Issue(at, message, "write stack: doca-ofed", "BAI-V070")
    first = _FIRST_OFED.get(spec.os)
    if first and is_older(rdma.version, first):
        message = f"MLNX_OFED is there for {spec.os} from {first} on, this is {rdma.version}"
        yield Issue(at, message, "choose a newer version", "BAI-V070")
