"""What the tests have to know of a provider, and cannot ask it."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from providers.base import KernelSpec, Labels, Provider
from providers.conformance.killed_create import KILLS, create_and_be_killed

PORT = 7070
NC_SERVER = "while :; do nc -l -p {port} -e sh -c 'echo hello; exec cat'; done"
"""By busybox."""
PYTHON_SERVER = """python3 -c '
import socket
server = socket.create_server(("127.0.0.1", {port}))
while True:
    connection = server.accept()[0]
    connection.sendall(b"hello\\n")
    while data := connection.recv(65536):
        connection.sendall(data)
    connection.close()
'"""
_OF_THE_TESTS = "-0c0c0c0c-g1"
"""End of the id of each kernel that the tests make."""


class ProviderHarness(ABC):
    """One for each class of tests; all of them use the same nodes, and kernels of other names."""

    open: Callable[[], Provider]
    """Gives another instance, as after a restart of bai that has lost its store. A process that is killed
    opens one, too: pickled, so that it has to be a function of a module, or a `functools.partial` of one."""
    nodes: Sequence[str] = ("node",)
    """Names of nodes that kernels can be placed on."""
    fields: Mapping[str, Any] = {}
    """Of every `KernelSpec` besides id, labels and command: `image`, `uid`, ..."""
    runs_programs = True
    """False for a simulation: what is promised of programs is skipped."""
    cpu = max(os.sched_getaffinity(0))
    """A core of the first node."""
    port = PORT
    """Where a program of a kernel may listen."""
    echo_server = NC_SERVER
    """A shell command, of programs that kernels have: says hello and a line feed to each connection, and then
    the same as that says."""
    hears_out = True
    """Whether how a command ended is told also where its input comes after its end: some API servers hang up
    on who has left some of it."""
    kills = KILLS
    """Moments of a creation at which whoever creates is killed, besides that of the fence."""

    @abstractmethod
    def left(self, kernel_id: str) -> Sequence[str]:
        """What there is of a kernel, in words: processes, files, objects. Found by other means than the
        provider's own, empty when it is gone without a trace."""

    def cut(self, node: str) -> AbstractContextManager[None] | None:
        """While it lasts, the provider cannot reach the node, where everything goes on. None where no node
        can be cut off."""
        return None

    def killed_creates(self, specs: Sequence[KernelSpec]) -> Iterator[KernelSpec]:
        """Each spec, after whoever created it was killed at another moment of the creation. `specs`: two more
        than there are moments, for creations by which these are found."""
        return create_and_be_killed(self.open, specs)

    def spec(self, name: str, script: str, *words: str, **fields: Any) -> KernelSpec:
        """A kernel that runs a shell script, with `words` as its arguments, on the first node unless
        `node=...`."""
        kernel_id = f"s-{name}{_OF_THE_TESTS}"
        labels = fields.pop("labels", None) or labels_of(name, fields.pop("node", self.nodes[0]))
        given = {"env": {}, "stop_grace": 1.0, **self.fields, **fields}
        return KernelSpec(kernel_id, labels, ("sh", "-c", script, "sh", *words), **given)


def labels_of(name: str, node: str) -> Labels:
    """As bai writes them."""
    return Labels(
        repo="conformance",
        cluster="here",
        resource=f"Session/tests/{name}",
        generation=1,
        digest="0123456789abcdef",
        kernel="main1",
        node=node,
        document='{"kind":"Session"}',
    )


def is_of_the_tests(kernel_id: str) -> bool:
    return kernel_id.endswith(_OF_THE_TESTS)
