"""Who has which cores of a node, by a look that knows less than what was begun since."""

from __future__ import annotations

import time

from providers.docker.engine.facts import parse_engine_info
from providers.docker.shared_cores import SharedCores
from tests.providers.docker.specs import here, kernel


def test_a_look_that_began_before_a_kernel_was_made_takes_nothing_away() -> None:
    """As one of a node that did not answer in time, and did later."""
    engine = here()
    engine.has_machine = False
    engine._facts = (time.monotonic(), parse_engine_info({"NCPU": 4}))
    cores = SharedCores(engine, lambda: None)
    before = cores.changes
    cores.update([], before)
    with cores.reserve(kernel("alone", cpus=(0, 1))):
        pass
    cores.update([], before)
    with cores.reserve(kernel("shares")) as bound:
        assert bound == (2, 3)
    cores.update([], cores.changes)
    with cores.reserve(kernel("shares")) as bound:
        assert bound == (), "nobody has cores alone any more"
