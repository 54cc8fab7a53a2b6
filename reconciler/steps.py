"""One action as the ordered steps that carry it out, computed from the plan alone, so that a saved plan applies exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from providers.base import KernelSpec
from reconciler.plan import Action, Plan
from reconciler.records import Recorded

StepKind = Literal["record", "create", "update", "stop", "remove", "forget"]


@dataclass(frozen=True, slots=True)
class Step:
    """One effect, or one write to the store.

    - `record`: write `record`; where its `started_at`/`finished_at` are None, apply keeps the store's value and fills in its own clock's
      when the phase has just become RUNNING (started) or TERMINATED, ERROR, CANCELLED (finished).
    - `create`, `update`: `spec` to the provider, after the references in `secrets` (variable → reference) have been resolved into `spec.secret_env`.
    - `stop` (gracefully, `grace` seconds), `remove`: by `kernel_id`.
    - `forget`: remove the resource's record.
    """

    kind: StepKind
    resource: str
    kernel_id: str = ""
    spec: KernelSpec | None = None
    secrets: Mapping[str, str] = field(default_factory=dict)
    grace: float = 10.0
    record: Recorded | None = None

    @property
    def key(self) -> str:
        """Unique within an action: what the journal calls this step."""
        phase = f":{self.record.phase}" if self.record is not None else ""
        return f"{self.kind}:{self.kernel_id or self.resource}{phase}"


def steps(action: Action, plan: Plan) -> tuple[Step, ...]:
    """The steps of one action, in order; empty for a no-op."""
    raise NotImplementedError
