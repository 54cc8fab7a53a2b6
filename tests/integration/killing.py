"""Applies that are killed at random moments, and what must be true after the next one."""

from __future__ import annotations

import json
import random
from abc import ABC, abstractmethod
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from tests.harness.labs import spent
from tests.integration.applying import Applier
from tests.waiting import soon

Running = Counter[tuple[str, str, str]]
"""(session, container, version) → how many run."""
Wishes = dict[str, tuple[int, int]]
"""Session → (version, containers)."""


class Ground(ABC):
    """A directory, its applier, and what really runs, whatever bai says of it."""

    def __init__(self, directory: Path, applier: Applier) -> None:
        self.directory = directory
        self.applier = applier

    @abstractmethod
    def session(self, name: str, version: int, size: int) -> dict[str, Any]:
        """The document of one session, whose containers carry name and version in their environment."""

    @abstractmethod
    def running(self) -> Running: ...

    def apply(self, after: float | None = None) -> dict[str, Any]:
        return self.applier.apply(after)

    def want(self, wishes: Wishes) -> Running:
        """Write their documents; gives what should run then."""
        documents = [self.session(name, *how) for name, how in wishes.items()]
        (self.directory / "sessions.yaml").write_text("\n---\n".join(map(json.dumps, documents)))
        return Counter(
            (name, host, str(version))
            for name, (version, size) in wishes.items()
            for host in ["main1", *(f"sub{n}" for n in range(1, size))]
        )

    def runs(self, wanted: Running) -> bool:
        return self.running() == wanted


def session_of(name: str, size: int, spec: dict[str, Any]) -> dict[str, Any]:
    """Of `size` containers that ask for next to nothing."""
    small = {
        "resources": {"cpu": "100m", "memory": "16MiB"},
        "cluster": {"roles": {"main": 1} | ({"sub": size - 1} if size > 1 else {})},
        "stop": {"grace": "5s"},
    }
    head = {"apiVersion": "bai/v1", "kind": "Session", "metadata": {"name": name, "project": "p"}}
    return {**head, "spec": small | spec}


def wishes(rng: random.Random) -> Wishes:
    names = [f"s{n}" for n in range(4) if rng.random() < 0.7]
    return {name: (rng.randrange(3), rng.choice([1, 1, 2])) for name in names}


@spent("kills")
def killed_anywhere(ground: Ground, rng: random.Random, most: int, *, first: int = 0) -> None:
    """Apply wishes, killed at random moments, until `most` were; each next run makes it right. How long an
    apply takes here and now is seen from those that nobody kills: by a guess, most may be killed before they
    do anything."""
    ground.want({"first": (0, 2)})
    alone = ground.apply()
    assert not alone["error"], alone
    kills, longest = 0, alone["seconds"]
    while kills < most:
        wanted = ground.want(wishes(rng))
        answer = ground.apply(after=rng.uniform(0, longest))
        kills += answer["killed"]
        again = ground.apply()
        if again["changes"]:
            longest = (longest + again["seconds"]) / 2
        where = f"kill {first + kills}, wanted {dict(wanted)}, the next run said {again}"
        assert not again["error"], where
        assert soon(partial(ground.runs, wanted)), f"{where}; there is {dict(ground.running())}"
