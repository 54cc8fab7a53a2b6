"""The lab as pytest fixtures. What cannot be had here is a skip that says why, never a failure and never
silence.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from tests.harness.labs import at_the_end_of, spent
from tests.lab.cache import LabUnavailable, alone
from tests.lab.guest import Guest
from tests.lab.numa import Machine
from tests.lab.saved import brought_up

REPOSITORY = Path(__file__).resolve().parents[2]
PARTS = (
    "pyproject.toml", "schemas", "providers", "tests/waiting.py",
    "tests/providers/process", "tests/integration/scratch_scenario.py",
)  # fmt: skip
"""What runs on a node, and its tests: each file more takes a millisecond to write in there."""


class Boot(Protocol):
    def __call__(
        self, *, numa: int = 2, cores: int = 1, cgroup2: bool = True, isolated: str = ""
    ) -> Guest: ...


@pytest.fixture(scope="session")
def vm() -> Iterator[Boot]:
    """Boots guests: `vm(numa=2)`. Tests that ask for the same machine share one; leave it as it was."""
    guests: dict[object, Guest | str] = {}
    with contextlib.ExitStack() as open_guests:

        def boot(*, numa: int = 2, cores: int = 1, cgroup2: bool = True, isolated: str = "") -> Guest:
            key = (numa, cores, cgroup2, isolated)
            if key not in guests:
                guests[key] = _boot(open_guests, Machine(numa, cores), _words(cgroup2, isolated))
            found = guests[key]
            if isinstance(found, str):
                pytest.skip(f"virtual machine lab: {found}")
            return found

        def close() -> None:
            open_guests.close()
            guests.clear()

        at_the_end_of("vm", close)
        yield boot


def _words(cgroup2: bool, isolated: str) -> str:
    given = ["cgroup_no_v1=all"] if cgroup2 else []
    return " ".join([*given, *([f"isolcpus={isolated}"] if isolated else [])])


def _boot(open_guests: contextlib.ExitStack, machine: Machine, command_line: str) -> Guest | str:
    """One boot at a time, also across parallel test processes: they would only slow each other down."""
    if os.environ.get("BAI_LAB") == "off":
        return "switched off by BAI_LAB=off"
    try:
        with alone("boot"), spent("boot"):
            guest = brought_up(machine, command_line)
    except LabUnavailable as error:
        return str(error)
    open_guests.callback(guest.close)
    return guest


def put_repository(guest: Guest, destination: str = "/repo") -> str:
    """Copy the `PARTS` of this repository into the guest (once); `guest.run([...], cwd=<the result>)` sees
    them.
    """
    if guest.run(["test", "-d", destination])[0]:
        guest.run(["mkdir", "-p", destination])
        guest.put_all({part: REPOSITORY / part for part in PARTS}, destination)
    return destination
