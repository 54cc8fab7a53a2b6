"""What a pass of the loop costs on a large cluster: 1,250 machines with eight GPUs each, simulated.

    python -m benchmarks.loop --nodes 1250 --sessions 1000 --json result.json

The real loop, which looks for garbage as seldom as `bai` does, documents in files, a store in a file, and the
fake provider, which holds kernels in memory and takes no time of its own. Wall-clock and CPU seconds of one
pass, in which the documents are read, the cluster is observed, planned and applied:

- `first`: nothing is there yet: every node is recorded, every session placed and made that has room.
- `idle`: nothing has changed (median of several).
- `one_more`: one session was added (median of several).
- `settled`: the pass after that, which finds it running.
- `node_lost`: a node with sessions does not answer any more.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bai.cli.main import start_lightly
from benchmarks.results import parser_of, show
from providers.fake import FakeProvider, VirtualClock, World
from reconciler.controller.loop import Loop
from reconciler.controller.loop_options import LoopOptions
from reconciler.workspace.workspace import Workspace

CAPTURE = Path(__file__).parents[1] / "examples" / "clusters" / "dgx-h100" / "hardware" / "dgx-h100.json"
AGAIN = 5
PER_FILE = 10
"""Sessions of a file."""
BEGIN = 1_780_000_000.0
"""What the world's clock says at first; one that is far behind is warned of in each pass."""
CLUSTER = """\
apiVersion: bai/v1
kind: Cluster
metadata: {{name: here}}
spec: {{provider: declared}}
---
apiVersion: bai/v1
kind: NodePool
metadata: {{name: dgx}}
spec:
  resourceGroup: all
  hardwareFrom: dgx.json
  namePattern: dgx-[0001-{nodes:04}]
  addressPattern: dgx-[0001-{nodes:04}].cluster.example
---
apiVersion: bai/v1
kind: ResourceGroup
metadata: {{name: all}}
---
apiVersion: bai/v1
kind: Project
metadata: {{name: p}}
"""


def session(name: str, gpus: int) -> str:
    asks = f"{{cpu: {8 * max(1, gpus)}, memory: {64 * max(1, gpus)}GiB" + (
        f", cuda.device: {gpus}}}" if gpus else "}"
    )
    return (
        f"apiVersion: bai/v1\nkind: Session\nmetadata: {{name: {name}, project: p}}\n"
        f"spec: {{command: [sleep, inf], resources: {asks}}}\n"
    )


class Bench:
    """A repository, a world, and the loop over both."""

    def __init__(
        self, root: Path, nodes: int, sessions: int, gpus: Sequence[int] = (0, 1, 2, 4, 8, 8)
    ) -> None:
        """`gpus`: how many a session may ask for."""
        self.folder = root / "repository"
        self.folder.mkdir()
        shutil.copyfile(CAPTURE, self.folder / "dgx.json")
        (self.folder / "cluster.yaml").write_text(CLUSTER.format(nodes=nodes))
        chance = random.Random(7)
        made = [session(f"s{n}", chance.choice(gpus)) for n in range(sessions)]
        (self.folder / "sessions").mkdir()
        for at in range(0, sessions, PER_FILE):
            (self.folder / f"sessions/{at}.yaml").write_text("---\n".join(made[at : at + PER_FILE]))
        self.world = World(VirtualClock(BEGIN))
        workspace = Workspace.open(self.folder, state=root / "store.db", clock=self.world.clock)
        workspace.provider = FakeProvider(self.world)
        self.loop = Loop(workspace, LoopOptions("benchmark", 30), log=lambda line: None)

    def once(self) -> dict[str, float]:
        self.world.clock.sleep(30)
        wall, cpu = time.perf_counter(), time.process_time()
        self.loop.once()
        return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}

    def add(self, name: str) -> dict[str, float]:
        (self.folder / f"{name}.yaml").write_text(session(name, 1))
        taken = self.once()
        assert f"Session/p/{name}" in self.loop.workspace.store.recorded("here")
        return taken

    def lose_a_node(self) -> dict[str, float]:
        kernel = next(iter(self.world.kernels.values()))
        self.world.down[kernel.spec.labels.node] = "no answer"
        return self.once()


def measure(nodes: int, sessions: int, root: Path) -> dict[str, Any]:
    bench = Bench(root, nodes, sessions)
    first = bench.once()
    placed = len(bench.world.kernels)
    bench.once()
    idle = [bench.once() for _ in range(AGAIN)]
    added = [(bench.add(f"more{n}"), bench.once()) for n in range(AGAIN)]
    found = {
        "first": [first],
        "idle": idle,
        "one_more": [one for one, _ in added],
        "settled": [after for _, after in added],
        "node_lost": [bench.lose_a_node()],
    }
    bench.loop.workspace.close()
    return {
        "nodes": nodes, "sessions": sessions, "placed": placed,
        **{
            name: {key: round(statistics.median(each[key] for each in samples), 3) for key in ("wall", "cpu")}
            for name, samples in found.items()
        },
        "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "load": os.getloadavg()[0],
    }  # fmt: skip


def main() -> None:
    parser = parser_of("loop", __doc__)
    parser.add_argument("--nodes", type=int, default=1250)
    parser.add_argument("--sessions", type=int, default=1000)
    given = parser.parse_args()
    start_lightly()  # as every `bai` does
    with tempfile.TemporaryDirectory(prefix="bai-loop-") as folder:
        found = measure(given.nodes, given.sessions, Path(folder))
    show(found, given.json)


if __name__ == "__main__":
    main()
