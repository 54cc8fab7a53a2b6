"""The driver, its flavour and its GPUs; the fabric manager.

Sources: see `schemas.hardware.generations`; for the fabric manager NVIDIA's Fabric Manager user guide ("must
match the driver") and gpu-driver-container#735, where one of another branch left the NVSwitches untrained.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from schemas.hardware.generations import (
    DEFAULT_OPEN,
    FIRST_OPEN,
    ONLY_OPEN,
    first_driver,
    gpu_generation,
    needs_open,
    needs_subnet_manager,
)
from schemas.problems.issues import Issue, Loc
from schemas.profile import NodeProfileSpec
from schemas.profile.roles.nvidia_driver import Flavour, NvidiaDriver
from schemas.profile.versions.version_numbers import driver_branch, is_older, upstream_version

DRIVER: Loc = ("spec", "nvidiaDriver")
_EXACT = re.compile(r"\d{3}\.\d{2,3}(\.\d{2,3})?\Z")


def default_flavour(version: str) -> Flavour:
    """Of the kernel modules, where a profile does not say: what NVIDIA installs for this branch."""
    return "open" if driver_branch(version) >= DEFAULT_OPEN else "proprietary"


def flavour_of(driver: NvidiaDriver) -> Flavour:
    """The flavour of the kernel modules that a profile's driver gets."""
    return driver.flavour or default_flavour(driver.version)


def rules(spec: NodeProfileSpec) -> Iterator[Issue]:
    """Everything about driver and fabric manager that cannot work."""
    driver = spec.nvidia_driver
    if driver is not None:
        yield from _exact_version_rules(driver)
        yield from _flavour_rules(driver)
        for index, model in enumerate(driver.gpus):
            yield from gpu_issues(driver, model, (*DRIVER, "gpus", index))
    yield from _fabric_manager_rules(spec)


def _exact_version_rules(driver: NvidiaDriver) -> Iterator[Issue]:
    if not _EXACT.match(upstream_version(driver.version)):
        message = f"'{driver.version}' is not the exact version of a driver"
        yield Issue((*DRIVER, "version"), message, "write it in full, such as 550.90.07", "BAI-V060")


def _flavour_rules(driver: NvidiaDriver) -> Iterator[Issue]:
    number = driver_branch(driver.version)
    if driver.flavour == "open" and 0 < number < FIRST_OPEN:
        message = f"branch {number} has no open kernel modules; they begin with {FIRST_OPEN}"
        yield Issue((*DRIVER, "flavour"), message, "write proprietary, or a newer version", "BAI-V061")
    if driver.flavour == "proprietary" and number >= ONLY_OPEN:
        message = f"branch {number} has no proprietary kernel modules; {ONLY_OPEN} removed them"
        yield Issue((*DRIVER, "flavour"), message, "write open, or a version before 620", "BAI-V061")


def gpu_issues(driver: NvidiaDriver, model: str, at: Loc) -> Iterator[Issue]:
    """Why this driver cannot run a GPU of this model; nothing for models that are not known."""
    generation, number = gpu_generation(model), driver_branch(driver.version)
    if generation is None or not number:
        return
    flavour, name = flavour_of(driver), f"{model} ({generation.name})"
    if flavour == "open" and not generation.can_open:
        message = f"{name} cannot run with the open kernel modules, which need Turing or newer"
        hint = "write flavour: proprietary, with a version of branch 580 or older"
        yield Issue(at, message, hint, "BAI-V061")
    elif flavour == "proprietary" and needs_open(model):
        yield Issue(at, f"{name} runs with the open kernel modules only", "write flavour: open", "BAI-V061")
    first = first_driver(model)
    if first and is_older(driver.version, first):
        message = f"{name} needs driver {first} or newer, this is {driver.version}"
        yield Issue(at, message, "choose a newer version", "BAI-V062")
    if generation.last_branch and number > generation.last_branch:
        message = f"branch {generation.last_branch} is the last that runs {name}, this is {driver.version}"
        yield Issue(at, message, f"choose a version of branch {generation.last_branch}", "BAI-V062")


def _fabric_manager_rules(spec: NodeProfileSpec) -> Iterator[Issue]:
    manager, driver = spec.nvidia_fabricmanager, spec.nvidia_driver
    if manager is None:
        return
    at: Loc = ("spec", "nvidiaFabricmanager")
    if driver is None and manager.version is None:
        message = "the fabric manager follows the driver, and the profile has none"
        yield Issue(at, message, "add nvidiaDriver", "BAI-V073", key=True)
    if (
        driver is not None
        and manager.version
        and upstream_version(manager.version) != upstream_version(driver.version)
    ):
        message = (
            f"fabric manager {manager.version} with driver {driver.version}: another version "
            "than the driver's does not bring up NVSwitches"
        )
        hint = f"leave it out, or write {upstream_version(driver.version)}"
        yield Issue((*at, "version"), message, hint, "BAI-V063")
    models = [model for model in (driver.gpus if driver else ()) if needs_subnet_manager(model)]
    if models and not manager.subnet_manager and manager.nvswitch != "absent":
        message = f"boards with {models[0]} need NVLink's subnet manager beside the fabric manager"
        yield Issue((*at, "subnetManager"), message, "write true", "BAI-V063", key=True)
