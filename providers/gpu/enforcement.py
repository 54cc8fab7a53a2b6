"""Enforcement of parts of GPUs, as values: what a node could use, what is tried there, and what came of it.

A node may be anybody's who has taken it over: whatever it answers is checked and bounded before it counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from schemas.problems.errors.node import MachineRefused

MEANS = ("mps", "hami", "mig")
Outcome = Literal["held", "failed", "untested"]


def _printable(text: str) -> str:
    """Without what moves a terminal's cursor."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


_Text = Annotated[str, Field(max_length=1000), AfterValidator(_printable)]
_Count = Annotated[int, Field(ge=0, le=2**50, strict=True)]
_Code = Annotated[int, Field(ge=0, le=100_000, strict=True)]
_Means = Annotated[str, Field(pattern="^(mps|hami|mig)$")]


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class NodeMeans(_Answer):
    """What a node can enforce parts with, by looking."""

    missing: dict[_Means, _Text]
    """Means → why it cannot be used there; empty when it can."""
    versions: dict[_Means, _Text] = {}
    """Means → the driver and the library or program that would enforce; another text once these change."""


class Allocations(_Answer):
    """Results of two allocations by the driver, 0 or its error: within the part, and then beyond it."""

    within: _Code
    beyond: _Code


class DeviceSeen(_Answer):
    """A GPU as one process sees it. Bytes; `shown` and `ways` are only of a process that allocated."""

    cuda: _Count
    """Version of CUDA that the driver has, 13000 for 13.0."""
    multiprocessors: _Count
    total: _Count
    shown: _Count = 0
    """What is told as all of the memory."""
    ways: Annotated[dict[_Text, Allocations], Field(max_length=4)] = {}
    """By how the driver's function was found."""
    said: _Text = ""
    """The end of what the process, or a library in it, complained of."""


class EnforcementFacts(_Answer):
    """What a node saw. `problem`: why nothing could be tried; `failed`: how trying ended otherwise than it
    should."""

    gpu: _Text = ""
    problem: _Text = ""
    failed: _Text = ""
    whole: DeviceSeen | None = None
    part: DeviceSeen | None = None
    second_user: Literal["", "served", "waits"] = ""
    """Under MPS, what becomes of another Linux user's process beside a first one's; empty: not seen."""


@dataclass(frozen=True, slots=True)
class ExpectedInstance:
    """A MIG instance by its profile. `memory`: bytes, least and most; `multiprocessors`: None where they are
    not known."""

    profile: str
    memory: tuple[int, int]
    multiprocessors: int | None


@dataclass(frozen=True, slots=True)
class TrialPart:
    """A part of a GPU that can be taken to see whether it holds."""

    gpu: str
    """UUID of a GPU, or of a MIG instance."""
    memory: int
    """Bytes of the limit."""
    milli: int = 1000
    env: Mapping[str, str] = field(default_factory=dict)
    """The limits, as a session's environment has them."""
    shared: bool = False
    """Sessions have parts of this GPU now."""
    instance: ExpectedInstance | None = None

    @property
    def within(self) -> int:
        """Bytes that must be had: a context takes some of the part, too."""
        return self.memory // 4

    @property
    def beyond(self) -> int:
        """Bytes that must not be had, and the most that are ever taken."""
        return self.memory + self.memory // 16


@dataclass(frozen=True, slots=True)
class EnforcementVerdict:
    """Whether a means was seen to hold on a node, and what was seen, in words."""

    outcome: Outcome
    why: str


_Model = TypeVar("_Model", bound=_Answer)


def parse_means(node: str, answer: object) -> NodeMeans:
    """Raises MachineRefused."""
    return _parse(NodeMeans, node, answer, "to tell what enforces parts of GPUs")


def parse_facts(node: str, answer: object) -> EnforcementFacts:
    """Raises MachineRefused."""
    return _parse(EnforcementFacts, node, answer, "to try a part of a GPU")


def _parse(model: type[_Model], node: str, answer: object, what: str) -> _Model:
    try:
        return model.model_validate(answer)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])[:100]
        why = f"its answer cannot be understood: {where}: {first['msg'][:200]}"
        raise MachineRefused(node=node, what=what, why=why) from None
