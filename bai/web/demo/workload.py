"""Who wants to compute what: drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from bai.web.demo.demo_repository import Person
from bai.web.demo.documents import PEOPLE

HOUR = 3600.0
_KINDS = {
    "vision": ("segment", "detector", "depth", "augment"),
    "language": ("sft", "eval", "distill", "tokenize"),
    "robotics": ("grasp", "policy", "rollout"),
}
_SIZES = ((1, 30), (2, 22), (4, 22), (8, 18), (16, 8))
"""GPUs, and how often."""
_FAILURES = ((1, "exit", 5), (137, "out of memory", 2), (0, "exit", 93))
_SESSION = """\
apiVersion: bai/v1
kind: Session
metadata: {{name: {name}, project: {project}, labels: {{kind: {kind}}}}}
spec:
  type: {type}
  owner: {owner}
  resources: {{cpu: {cpu}, memory: {memory}GiB, cuda.device: {gpus}}}
{more}"""


@dataclass(frozen=True, slots=True)
class Job:
    """A session, and what becomes of it once it runs: it ends after `seconds` (0: when somebody ends it)."""

    identity: str
    who: Person
    path: str
    text: str
    gpus: int = 1
    seconds: float = 0.0
    exit_code: int = 0
    reason: str = "exit"
    busy: int = 90
    """Percent of its GPUs."""


EXAMPLE_JOBS = tuple(
    Job(f"Session/{name}", PEOPLE[0], "", "", gpus, hours * HOUR, busy=busy)
    for name, gpus, hours, busy in (
        ("language/pretrain", 8, 34, 97), ("vision/finetune", 4, 5, 91), ("vision/sweep", 2, 3.4, 84),
        ("vision/notebook", 1, 0, 12), ("vision/ablation", 8, 6, 88),
        ("language/inference-bench", 2, 2.6, 55),
    )
)  # fmt: skip
"""What becomes of the example's own sessions."""


@dataclass
class Workload:
    """Jobs, one after another, of people who take turns by chance."""

    rng: random.Random
    _count: int = 0
    _names: dict[str, int] = field(default_factory=dict)

    def draw(self) -> Job:
        """One more."""
        rng, self._count = self.rng, self._count + 1
        who = rng.choice(PEOPLE)
        if rng.random() < 0.12:
            return self._notebook(who)
        kind = rng.choice(_KINDS[who.project])
        gpus = rng.choices([size for size, _ in _SIZES], [weight for _, weight in _SIZES])[0]
        seconds = min(9 * HOUR, max(0.3 * HOUR, rng.lognormvariate(0.45, 0.7) * HOUR))
        ends = rng.choices(_FAILURES, [weight for *_, weight in _FAILURES])[0]
        if ends[0]:
            seconds *= rng.uniform(0.05, 0.5)
        name = f"{kind}-{self._number(kind):03}"
        nodes = max(1, gpus // 8)
        more = [f"  command: [python, {kind}.py, --seed={rng.randrange(1000)}]"]
        if nodes > 1:
            more.append(f"  cluster: {{mode: multi-node, roles: {{main: 1, sub: {nodes - 1}}}}}")
        more.append(f"  timeout: {int(seconds / HOUR * 1.4) + 1}h")
        if rng.random() < 0.1:
            more.append(f"  priority: {rng.choice((5, 20))}")
        text = _document(name, who, kind, "batch", gpus // nodes, more)
        return Job(
            f"Session/{who.project}/{name}", who, f"sessions/{who.project}/{name}.yaml", text,
            gpus // nodes, seconds, ends[0], ends[1], rng.randint(55, 98),
        )  # fmt: skip

    def _notebook(self, who: Person) -> Job:
        """It is stopped when nobody has used it for two hours."""
        name = f"{who.name}-notebook-{self._number(who.name)}"
        more = [
            "  command: [jupyter, lab, --no-browser]",
            "  ports: [{name: jupyter, port: 8888, protocol: http}]",
            "  idle: {after: 2h}",
        ]
        text = _document(name, who, "notebook", "interactive", 1, more)
        path = f"sessions/{who.project}/{name}.yaml"
        return Job(f"Session/{who.project}/{name}", who, path, text, busy=self.rng.choice((1, 2, 30)))

    def _number(self, name: str) -> int:
        self._names[name] = self._names.get(name, 0) + 1
        return self._names[name]


def _document(name: str, who: Person, kind: str, type_: str, gpus: int, more: list[str]) -> str:
    return _SESSION.format(
        name=name, project=who.project, kind=kind, type=type_, owner=who.name,
        cpu=12 * gpus, memory=128 * gpus, gpus=gpus, more="\n".join(more) + "\n",
    )  # fmt: skip


def log_line(job: Job, step: int) -> str:
    """What it writes at a step: the same whenever it is asked."""
    kind = job.identity.rpartition("/")[2].partition("-")[0]
    if not job.seconds:
        return f"[I ServerApp] kernel idle check {step}: {'busy' if job.busy > 5 else 'idle'}"
    chance = random.Random(f"{job.identity} {step}")
    loss = 0.35 + 6.5 / (1 + step / 9) + chance.uniform(-0.04, 0.04)
    return f"{kind} step {step * 250:>7,} loss {loss:6.3f} lr 3.0e-04 gpu {job.busy + chance.randint(-4, 2)}%"


def job_files(job: Job, log: bytes) -> Mapping[str, bytes]:
    """What it has in its working directory: small, and made up as everything else."""
    name = job.identity.rpartition("/")[2]
    kind = name.partition("-")[0]
    about = f"{job.identity}\n\n{_ABOUT_FILES}"
    if not job.seconds:
        return {"README.txt": about.encode(), f"{name}.ipynb": b'{"cells": [], "nbformat": 4}\n'}
    config = f"kind: {kind}\ngpus: {job.gpus}\nlearning_rate: 3.0e-04\n"
    script = f"# The program of {name}: in this simulation it is not run.\n"
    files = {"README.txt": about, f"{kind}.py": script, "config.yaml": config}
    files |= {f"checkpoints/step-{step * 2500:06}.txt": "weights would be here\n" for step in (1, 2, 3)}
    return {**{path: text.encode() for path, text in files.items()}, "logs/output.log": log}


_ABOUT_FILES = """\
Nothing runs here: these files are made up, as the machines are. What you send stays, in memory, until the
session ends.
"""


def patient_jobs(now: float) -> Iterator[tuple[Job, str]]:
    """Those that wait for another session, for the night, and for a larger quota; with what is said of
    each."""
    night = datetime.fromtimestamp(now + 5 * HOUR, UTC).strftime("%Y-%m-%dT%H:00:00Z")
    asks: tuple[tuple[Person, str, int, str, str], ...] = (
        (PEOPLE[1], "judge", 8, "dependsOn: [Session/language/pretrain]", "Judge the model once it is there"),
        (PEOPLE[3], "reindex", 4, f'startsAt: "{night}"', "Make the index anew at night"),
        (PEOPLE[4], "world-model", 8, "cluster: {mode: multi-node, roles: {main: 1, sub: 3}}",
         "A world model, on four nodes"),
    )  # fmt: skip
    for who, name, gpus, line, message in asks:
        more = [f"  {line}", f"  command: [python, {name}.py]", "  timeout: 9h"]
        text = _document(name, who, name, "batch", gpus, more)
        path = f"sessions/{who.project}/{name}.yaml"
        yield Job(f"Session/{who.project}/{name}", who, path, text, gpus, 6 * HOUR), message


def jobs_by_identity() -> Mapping[str, Job]:
    return {job.identity: job for job in EXAMPLE_JOBS}
