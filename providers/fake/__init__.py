"""A provider without machines: deterministic, in memory, with faults on demand and its own clock.

`World` is what survives (the "machines"); `FakeProvider` is one handle on it, as a process that may die would
hold. Nothing here is random and nothing sleeps: the world changes when its clock is advanced, or when a test
says so.

    world = World()
    provider = FakeProvider(world)
    world.inject(Fault("create", moment="after"))     # the kernel is made, the caller hears an error
    world.ends_after["a-main1-…"] = Ending(30.0, exit_code=0)
    world.clock.sleep(30)

For plugin authors: a provider that behaves like this one under the same faults is safe under the reconciler.

Read `world` first: the machines; `provider` is the handle on them, `files` and
`file_system` are what kernels have of files.
"""

from providers.fake.file_system import FakeFileSystem
from providers.fake.files import FakeFiles
from providers.fake.provider import IN_PLACE, FakeProvider
from providers.fake.world import (
    Failure,
    FakeKernel,
    Fault,
    FaultMoment,
    Operation,
    ScheduledExit,
    SimulatedLoad,
    VirtualClock,
    World,
)

__all__ = [
    "IN_PLACE",
    "Failure",
    "FakeFileSystem",
    "FakeFiles",
    "FakeKernel",
    "FakeProvider",
    "Fault",
    "FaultMoment",
    "Operation",
    "ScheduledExit",
    "SimulatedLoad",
    "VirtualClock",
    "World",
]
