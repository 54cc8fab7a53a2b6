"""What goes on in the demo's cluster as its time passes: people commit, sessions end, machines fail."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from itertools import count

from bai.web.demo.demo_repository import DemoRepository
from bai.web.demo.documents import (
    DRAINED,
    OPERATOR,
    PEOPLE,
    PROJECTS,
    cluster_document,
    example_files,
    larger_vision,
    tenancy_document,
)
from bai.web.demo.simulated_provider import SimulatedProvider
from bai.web.demo.workload import (
    HOUR,
    Job,
    Workload,
    job_files,
    jobs_by_identity,
    log_line,
    patient_jobs,
)
from providers.base import KernelSpec
from providers.fake import FakeKernel, ScheduledExit, SimulatedLoad, VirtualClock, World
from providers.health.codes import CODES
from providers.health.facts import MachineFacts
from providers.health.values import ExpectedGpu, ExpectedNode, NodeHealth

PAST = 10 * HOUR
"""What lies behind when the first page is shown."""
STEP = 720.0
"""Seconds from pass to pass in that past."""
MINUTE = 60.0
_MOST_WAITING = 11
"""With so many in the queue, nobody brings more."""
_BETWEEN_ARRIVALS = 5.5 * MINUTE
_START = 35.0
"""Seconds until a container runs."""
_KEPT = 1.5 * HOUR
"""How long the document of a session stays that has ended."""
_MAINTENANCE = 7 * HOUR
_LOG_EVERY = 4 * MINUTE
_MOST_LINES = 400
_IDLE = 5
"""Percent of its GPU with which a notebook counts as forgotten."""
_WHY_DRAINED = "A fan is replaced."
_BRANCH = "vision-40-gpus"


class SimulatedDay:
    """`advance` is called between passes, by one thread: within a pass time stands still."""

    def __init__(self, repository: DemoRepository, now: float, seed: int) -> None:
        self.began = now - PAST
        self.world = World(VirtualClock(self.began))
        self.world.slow_create = _START
        self.world.files_of = self._files
        self.provider = SimulatedProvider(self.world, self._begin)
        self._repository = repository
        self._rng = random.Random(seed)
        self._workload = Workload(self._rng)
        self._jobs: dict[str, Job] = dict(jobs_by_identity())
        self._begun: dict[str, float] = {}
        self._next_arrival = self.began + MINUTE
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._drains = count()
        self._worked = self.began
        self._proposed = 0
        self._plan_events()
        self._found_cluster()

    @property
    def now(self) -> float:
        return self.world.clock.now()

    def advance(self, until: float) -> None:
        """Everything that happens by then, in its order."""
        while True:
            due = self._due[0] if self._due else None
            at = min(self._next_arrival, due[0] if due is not None else self._next_arrival)
            if at > until:
                break
            self._pass_time(at)
            if due is not None and due[0] <= at:
                self._due.pop(0)[2]()
            else:
                self._arrive()
        self._pass_time(until)
        self._work()
        if 0 < self._proposed < self._repository.moves:
            self._propose()
        self._repository.write()

    def _pass_time(self, until: float) -> None:
        with self.world.lock:
            self.world.clock.sleep(until - self.now)

    # What is known beforehand

    def _plan_events(self) -> None:
        for hours, event in (
            (2.0, self._join_robotics),
            (4.5, lambda: self._lose("dgx-10")),
            (4.8, lambda: self._find("dgx-10")),
            (6.0, self._drain),
            (7.5, self._break_gpu),
            (8.4, self._ask_for_more),
            (9.4, self._propose),
        ):
            self._at(self.began + hours * HOUR, event)
        self._at(self.began + 2 * HOUR, self._tidy)

    def _at(self, when: float, event: Callable[[], None]) -> None:
        self._due.append((when, next(self._order), event))
        self._due.sort(key=lambda each: each[:2])

    def _found_cluster(self) -> None:
        files, day = example_files(), 24 * HOUR
        sessions = {path: text for path, text in files.items() if path.startswith("sessions")}
        rest = {path: text for path, text in files.items() if path not in sessions}
        commit = self._repository.commit
        commit(OPERATOR, "Sixteen DGX H100, and two projects", rest, self.began - 9 * day)
        commit(
            OPERATOR, "Two racks; later sessions may go first where they delay nobody",
            {"cluster.yaml": cluster_document(), "tenancy.yaml": tenancy_document("vision", "language")},
            self.began - 2 * day,
        )  # fmt: skip
        commit(PEOPLE[0], "Pretrain on half of the cluster", sessions, self.began - 5 * MINUTE)
        self._repository.write()

    def _join_robotics(self) -> None:
        message = "Robotics joins; projects lend each other the GPUs that they do not use"
        self._repository.commit(OPERATOR, message, {"tenancy.yaml": tenancy_document(*PROJECTS)}, self.now)

    def _lose(self, node: str) -> None:
        with self.world.lock:
            self.world.down[node] = "ssh: connect to host: No route to host"

    def _find(self, node: str) -> None:
        with self.world.lock:
            self.world.down.pop(node, None)

    def _drain(self) -> None:
        """The next node's turn; the one before is back."""
        number = next(self._drains)
        node = DRAINED[number % len(DRAINED)]
        back = f"; {DRAINED[(number - 1) % len(DRAINED)]} is back" if number else ""
        self._repository.commit(
            OPERATOR, f"Drain {node}: a fan is replaced{back}",
            {"cluster.yaml": cluster_document(node, _WHY_DRAINED)}, self.now,
        )  # fmt: skip
        self._at(self.now + _MAINTENANCE, self._drain)

    def _break_gpu(self) -> None:
        gpu = ExpectedGpu("0000:9d:00.0", 4, "0000:9d:00.0", 18)
        found = CODES["gpu-rows-failed"].found(gpu.id, index=gpu.index)
        self.provider.sick["dgx-11"] = NodeHealth("dgx-11", (found,), MachineFacts(), ExpectedNode((gpu,)))

    def _ask_for_more(self) -> None:
        """What waits for something else than room."""
        for job, message in patient_jobs(self.now):
            self._submit(job, message)

    def _propose(self) -> None:
        """Its author keeps the branch on top of the main one."""
        self._proposed = self._repository.moves
        who = next(one for one in PEOPLE if one.name == "jonas")
        message = "Vision may hold 40 GPUs, and trains a larger detector on 16 of them"
        self._repository.commit(who, message, larger_vision(), self.now, branch=_BRANCH)

    # What chance decides

    def _arrive(self) -> None:
        self._next_arrival = self.now + self._rng.expovariate(1 / _BETWEEN_ARRIVALS)
        waiting = len(self._jobs.keys() - self._begun.keys())
        if waiting >= _MOST_WAITING:
            return
        job = self._workload.draw()
        if job.who.project == "robotics" and self.now < self.began + 2 * HOUR:
            return
        self._submit(job, f"Start {job.identity.rpartition('/')[2]}")

    def _submit(self, job: Job, message: str) -> None:
        self._jobs[job.identity] = job
        self._repository.commit(job.who, message, {job.path: job.text}, self.now)

    def _tidy(self) -> None:
        """Documents of what has ended a while ago go."""
        self._at(self.now + HOUR, self._tidy)
        old = {
            name: job
            for name, job in self._jobs.items()
            if job.path and name in self._begun and self.now > self._end_of(job) + _KEPT
        }
        if old:
            gone: Mapping[str, str | None] = {job.path: None for job in old.values()}
            self._repository.commit(OPERATOR, f"Remove {len(old)} sessions that have ended", gone, self.now)
        for name in old:
            del self._jobs[name], self._begun[name]

    def _end_of(self, job: Job) -> float:
        """About when; notebooks are given a day."""
        return self._begun[job.identity] + (job.seconds or 24 * HOUR)

    # What runs

    def _begin(self, spec: KernelSpec) -> None:
        """A kernel was made."""
        identity = spec.labels.resource
        job = self._jobs.get(identity)
        self._begun.setdefault(identity, self.now)
        if job is not None and job.seconds:
            self.world.ends_after[spec.id] = ScheduledExit(job.seconds, job.exit_code, job.reason)
        self.world.use(spec.id, _load(spec, job.busy if job is not None else 70))

    def _files(self, kernel: FakeKernel) -> Mapping[str, bytes]:
        job = self._jobs.get(kernel.spec.labels.resource)
        return job_files(job, b"".join(kernel.log)) if job is not None else {}

    def _work(self) -> None:
        """What runs writes logs, and uses now more and now less."""
        steps = int((self.now - self._worked) / _LOG_EVERY)
        if not steps:
            return
        self._worked += steps * _LOG_EVERY
        with self.provider.news:
            for kernel_id, kernel in sorted(self.world.kernels.items()):
                job = self._jobs.get(kernel.spec.labels.resource)
                if job is None or self.world.settle(kernel_id).ended is not None or kernel.ready > self.now:
                    continue
                first = int((self._worked - kernel.ready) / _LOG_EVERY)
                kernel.log += [
                    f"{log_line(job, step)}\n".encode() for step in range(max(0, first - steps), first)
                ]
                del kernel.log[:-_MOST_LINES]
                change = self._rng.randint(-9, 6) if job.busy > _IDLE else 0
                self.world.use(kernel_id, _load(kernel.spec, min(100, job.busy + change)))
            self.provider.news.notify_all()


def _load(spec: KernelSpec, busy: int) -> SimulatedLoad:
    return SimulatedLoad(cores=len(spec.cpus) * busy / 150, network=20_000.0 * busy, gpu=busy)
