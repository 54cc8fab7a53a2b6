"""What a container asks for, and what a quota allows: amounts by slot.

`cpu` (milli-cores), `memory`, `hugepages-2Mi`, `hugepages-1Gi`, `shm` and `scratch` (bytes), `pids` (count)
are fields. Accelerators are
named by their plugin and held in `accelerators`: `cuda.device` whole devices, `cuda.shares` milli,
`cuda.mig.<profile>` instances; other vendors by the same pattern.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any

from pydantic import (
    Field,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    SerializerFunctionWrapHandler,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from schemas.problems.issues import Issue, issues_error
from schemas.problems.model_errors import nested_issues
from schemas.problems.text import did_you_mean, format_value
from schemas.values.envelope import Model, Positive
from schemas.values.quantities import (
    SHARES_SCHEMA,
    Cpu,
    Memory,
    Pages1Gi,
    Pages2Mi,
    format_shares,
    parse_shares,
)

MOST_DEVICES = 100_000
DEVICE_SLOT = r"^[a-z][a-z0-9]{0,31}\.device$"
SHARES_SLOT = r"^[a-z][a-z0-9]{0,31}\.shares$"
MIG_SLOT = r"^[a-z][a-z0-9]{0,31}\.mig\.[1-9]g\.[1-9][0-9]{0,3}gb(\+me)?$"
_NVIDIA = "whole NVIDIA GPUs are asked for as cuda.device, a part of one as cuda.shares"
_AMD = "whole AMD GPUs are asked for as rocm.device, a part of one as rocm.shares"
_MEMORY = "did you mean 'memory'?"
_HUGE = "huge pages are asked for by their size: hugepages-2Mi or hugepages-1Gi"
_OTHER_TOOLS = {
    **dict.fromkeys(("gpu", "gpus", "cuda", "nvidia.com/gpu", "gres", "gres/gpu"), _NVIDIA),
    **dict.fromkeys(("hugepages", "huge-pages", "hugepages-2mib", "hugepages-2mb", "hugepages-1gib"), _HUGE),
    "amd.com/gpu": _AMD, "mem": _MEMORY, "ram": _MEMORY, "google.com/tpu": "did you mean 'tpu.device'?",
    "ephemeral-storage": "did you mean 'scratch'?",
}  # fmt: skip
"""What Kubernetes, Slurm and Docker call things → what is to be written instead."""
_KNOWN = ("cuda.device", "cuda.shares", "cuda.mig.1g.10gb", "rocm.device", "tpu.device", "ipu.device")


def _matches_slot(pattern: str, slot: str) -> bool:
    return re.match(pattern.removesuffix("$") + r"\Z", slot) is not None


def parse_slot(slot: str, value: object) -> int:
    """The amount of an accelerator slot in its smallest unit. Raises ValueError when it is not one."""
    if _matches_slot(SHARES_SLOT, slot):
        return parse_shares(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_DEVICES:
        shares = slot.rpartition(".")[0] + ".shares" if slot.endswith(".device") else ""
        hint = (
            f"; did you mean {shares}: {format_value(value)}?" if shares and isinstance(value, float) else ""
        )
        raise ValueError(
            f"{format_value(value)} is not a whole number of devices from 0 to {MOST_DEVICES}{hint}"
        )
    return value


def _slot_hint(word: str, known: set[str]) -> str:
    mig = re.fullmatch(r"nvidia\.com/mig-([1-9]g\.[1-9][0-9]{0,3}gb)", word)
    return (
        (f"did you mean 'cuda.mig.{mig[1]}'?" if mig else "")
        or _OTHER_TOOLS.get(word.casefold(), "")
        or did_you_mean(word, [*known, *_KNOWN])
        or "accelerators are named like cuda.device"
    )


def is_slot(name: str) -> bool:
    """Whether this is the name of an accelerator slot."""
    return any(_matches_slot(pattern, name) for pattern in (DEVICE_SLOT, SHARES_SLOT, MIG_SLOT))


def format_slot(slot: str, value: int) -> int | float:
    """The amount as people write it."""
    return format_shares(value) if _matches_slot(SHARES_SLOT, slot) else value


class Slots(Model):
    """Amounts by slot."""

    cpu: Cpu | None = None
    """Cores: whole numbers are exclusive cores, `500m` a share."""
    memory: Memory | None = None
    """Main memory."""
    hugepages_2mi: Pages2Mi | None = Field(default=None, alias="hugepages-2Mi")
    """Huge pages of 2 MiB, beside `memory`."""
    hugepages_1gi: Pages1Gi | None = Field(default=None, alias="hugepages-1Gi")
    """Huge pages of 1 GiB, beside `memory`."""
    accelerators: Mapping[str, int] = {}

    @cached_property
    def slots(self) -> Mapping[str, int]:
        """The planner's slots: `cpu` milli-cores, `mem` and huge pages bytes, accelerators; only what is
        named."""
        named = {"cpu": self.cpu, "mem": self.memory, **self.hugepages}
        return {slot: amount for slot, amount in named.items() if amount is not None} | dict(
            self.accelerators
        )

    @property
    def hugepages(self) -> dict[str, int]:
        """Bytes by slot, as far as they are named."""
        named = {"hugepages-2Mi": self.hugepages_2mi, "hugepages-1Gi": self.hugepages_1gi}
        return {slot: amount for slot, amount in named.items() if amount is not None}

    @model_validator(mode="wrap")
    @classmethod
    def _read(cls, value: Any, handler: ModelWrapValidatorHandler[Slots]) -> Slots:
        if not isinstance(value, dict):
            return handler(value)
        names = {field.alias or name for name, field in cls.model_fields.items()} - {"accelerators"}
        plain = {key: item for key, item in value.items() if key in names}
        issues: list[Issue] = []
        amounts = {}
        for slot, item in value.items():
            if slot not in names:
                amounts[slot] = cls._amount(slot, item, names, issues)
        try:
            made = handler(
                plain | {"accelerators": {slot: n for slot, n in amounts.items() if n is not None}}
            )
        except ValidationError as error:
            issues += nested_issues(error)
        if issues:
            raise issues_error(issues)
        return made

    @classmethod
    def _amount(cls, slot: Any, item: Any, names: set[str], issues: list[Issue]) -> int | None:
        if not isinstance(slot, str) or not is_slot(slot):
            hint = _slot_hint(str(slot), names)
            issues.append(
                Issue((str(slot),), f"{format_value(slot)} is not a slot", hint, "BAI-V020", item, key=True)
            )
            return None
        try:
            return parse_slot(slot, item)
        except ValueError as error:
            message, _, hint = str(error).partition("; ")
            issues.append(Issue((slot,), message, hint, "BAI-V032", item))
            return None

    @model_serializer(mode="wrap")
    def _write(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = handler(self)
        written.pop("accelerators", None)
        return written | {slot: format_slot(slot, n) for slot, n in sorted(self.accelerators.items())}

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler.resolve_ref_schema(handler(core))
        schema["properties"].pop("accelerators", None)
        count = {"type": "integer", "minimum": 0, "maximum": MOST_DEVICES}
        schema["patternProperties"] = {DEVICE_SLOT: count, SHARES_SLOT: SHARES_SCHEMA, MIG_SLOT: count}
        return schema


class Resources(Slots):
    """What one container gets."""

    cpu: Annotated[Cpu, Field(ge=1, le=65_536_000)] | None = None
    """Cores: whole numbers are exclusive cores, `500m` a share of the cores that nobody has alone."""
    memory: Annotated[Memory, Field(ge=1024 * 1024, le=2**60)] | None = None
    """Main memory; a hard limit where the provider can enforce it."""
    hugepages_2mi: Annotated[Pages2Mi, Field(le=2**60)] | None = Field(default=None, alias="hugepages-2Mi")
    """Huge pages of 2 MiB, beside `memory`; only on nodes that have set some aside."""
    hugepages_1gi: Annotated[Pages1Gi, Field(le=2**60)] | None = Field(default=None, alias="hugepages-1Gi")
    """Huge pages of 1 GiB, beside `memory`; only on nodes that have set some aside."""
    shm: Annotated[Memory, Field(le=2**60)] | None = None
    """Shared memory (`/dev/shm`), counted within `memory`."""
    pids: Positive | None = None
    """Most processes and threads."""
    scratch: Annotated[Memory, Field(ge=1024 * 1024, le=2**60)] | None = None
    """Most room on the node's disk for files of its own, volumes aside; as its resource group says when left
    out."""


def _read_once(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    if not isinstance(value, dict) or len(value) > _MOST_SLOTS:
        return handler(value)
    plain = [(slot, type(item), item) for slot, item in value.items() if _is_plain(item)]
    if len(plain) < len(value):
        return handler(value)
    key = tuple(plain)
    made = _known_resources.get(key)
    if made is None:
        made = handler(value)
        if len(_known_resources) >= _MOST_KNOWN:
            _known_resources.clear()
        _known_resources[key] = made
    return made


def _is_plain(amount: object) -> bool:
    """Whether this may be an amount as people write it, which takes little room."""
    kind = type(amount)
    return kind is int or kind is float or (kind is str and len(amount) <= _LONGEST)  # type: ignore[arg-type]


_LONGEST, _MOST_SLOTS, _MOST_KNOWN = 32, 16, 4096
_known_resources: dict[tuple[object, ...], object] = {}
"""What was read last, by what was written: only what was right, and it never changes."""
SharedResources = Annotated[Resources, WrapValidator(_read_once)]
"""The same object for the same amounts: thousands of sessions ask for one of a few, and what follows from
them is worked out once."""
