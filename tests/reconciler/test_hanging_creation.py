"""A node on which a creation hangs keeps no other session of the same pass from its start."""

from __future__ import annotations

import threading
from pathlib import Path

from providers.base import Fence, KernelSpec, Observed
from providers.base import unfenced as no_fence
from providers.fake import FakeProvider
from reconciler.workspace.workspace import Workspace
from tests.reconciler.lab import Lab, session
from tests.reconciler.looped import Looped
from tests.waiting import until

NODES = 3
DEVICES = 2
"""Of a node: as many sessions as this begin on the one that hangs, and have to wait for it."""


class HangingProvider(FakeProvider):
    """Nothing that is created on one node comes to its end until `mended`."""

    hanging = "n1"

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab.world)
        self.mended = threading.Event()
        self.begun: set[str] = set()

    def create(self, spec: KernelSpec, fence: Fence = no_fence) -> Observed:
        if spec.labels.node == self.hanging:
            self.begun.add(spec.labels.resource)
            self.mended.wait()
        return super().create(spec, fence)


def test_the_others_run_meanwhile(tmp_path: Path) -> None:
    lab = Lab(tmp_path, nodes=NODES)
    provider = HangingProvider(lab)
    names = [f"s{number}" for number in range(NODES * DEVICES)]
    lab.write({name: session(name, "resources: {cpu: 1, cuda.device: 1}") for name in names})
    workspace = Workspace.open(lab.folder, state=lab.state, clock=lab.world.clock)
    workspace.provider = provider
    looped = Looped(workspace, lab.world)

    def running() -> set[str]:
        return {name for name, record in lab.store.recorded("here").items() if record.phase == "RUNNING"}

    everybody = {f"Session/p/{name}" for name in names}
    one_pass = threading.Thread(target=looped.once, daemon=True)
    one_pass.start()
    try:
        until(lambda: len(provider.begun) == DEVICES, "creations that hang")
        until(lambda: running() == everybody - provider.begun, "the others run")
        assert one_pass.is_alive(), "the pass is not over: the others did not wait for its end"
    finally:
        provider.mended.set()
        one_pass.join()
    assert looped.good and running() == everybody
    looped.close()
