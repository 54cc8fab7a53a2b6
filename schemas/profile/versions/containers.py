"""Engine, container toolkit and CDI.

Sources: moby#45192 (CDI is known to Docker from 25.0 on and switched on by itself from 28.2 on), NVIDIA's
container toolkit guide (CDI specifications since 1.12; since 1.18 refreshed by its own systemd units; its
four packages are one release), nvidia-container-toolkit#48 (GPUs lost at a daemon-reload of systemd).
"""

from __future__ import annotations

from collections.abc import Iterator

from schemas.problems.issues import Issue, Loc
from schemas.profile import NodeProfileSpec
from schemas.profile.versions.version_numbers import is_older

FIRST_ENGINE = "25.0"
"""The first Docker that knows CDI."""
FIRST_TOOLKIT = "1.12"
"""The first container toolkit that makes CDI specifications."""


def rules(spec: NodeProfileSpec) -> Iterator[Issue]:
    """Everything about engine and toolkit that cannot work together."""
    yield from _engine_rules(spec)
    yield from _toolkit_rules(spec)
    yield from _reload_rules(spec)


def engine_has_cdi(spec: NodeProfileSpec) -> bool:
    """Whether containers of this profile's engine get devices by CDI."""
    docker, toolkit = spec.docker, spec.nvidia_container_toolkit
    if docker is None or toolkit is None:
        return False
    return docker.cdi and toolkit.cdi and not is_older(docker.version, FIRST_ENGINE)


def _engine_rules(spec: NodeProfileSpec) -> Iterator[Issue]:
    docker = spec.docker
    if docker and docker.cdi and "cdi" in docker.model_fields_set and is_older(docker.version, FIRST_ENGINE):
        message = f"docker {docker.version} does not know CDI, which came with 25.0"
        yield Issue(("spec", "docker", "cdi"), message, "write false, or a newer version", "BAI-V064")


def _toolkit_rules(spec: NodeProfileSpec) -> Iterator[Issue]:
    toolkit = spec.nvidia_container_toolkit
    if toolkit is None:
        return
    at: Loc = ("spec", "nvidiaContainerToolkit")
    if toolkit.cdi and is_older(toolkit.version, FIRST_TOOLKIT):
        message = f"toolkit {toolkit.version} makes no CDI specifications, which came with {FIRST_TOOLKIT}"
        yield Issue((*at, "version"), message, "choose a newer version, or write cdi: false", "BAI-V064")
    if toolkit.mode == "cdi" and not toolkit.cdi:
        message = "the runtime is to use CDI, and no specification is made"
        yield Issue((*at, "mode"), message, "write cdi: true", "BAI-V064")


def _reload_rules(spec: NodeProfileSpec) -> Iterator[Issue]:
    docker, toolkit = spec.docker, spec.nvidia_container_toolkit
    if docker is None or toolkit is None or docker.cgroup_driver != "systemd":
        return
    if toolkit.device_links or toolkit.mode == "cdi" or engine_has_cdi(spec):
        return
    message = "with the systemd cgroup driver and without CDI, containers lose their GPUs at a daemon-reload"
    hint = "write cgroupfs, use CDI, or keep nvidiaContainerToolkit.deviceLinks"
    yield Issue(("spec", "docker", "cgroupDriver"), message, hint, "BAI-V064")
