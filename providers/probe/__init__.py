"""What a machine is, read from /sys and NVML. `collect/` runs on the machine itself (here, or far away as
`zipapp.build()`);
its JSON is checked here. Imports stay inside the functions: `collect/` must load without pydantic.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schemas.hardware.model import Hardware


def probe_local(root: Path = Path("/")) -> Hardware:
    """What this machine is, or the one whose /sys and /proc were copied below `root`; raises CannotRead."""
    from providers.probe.collect.main import collect
    from schemas.hardware.model import Hardware
    from schemas.hardware.sysfs.machine import NoMachineTree
    from schemas.problems.errors.repository import CannotRead

    try:
        return Hardware.model_validate(collect(str(root)))
    except NoMachineTree as error:
        raise CannotRead(what=f"the machine below {root}", why=str(error)) from None


def parse(output: bytes | str, *, source: str = "the probe") -> Hardware:
    """The probe's JSON, as printed on another machine; raises CannotRead when it is not that."""
    from pydantic import ValidationError

    from schemas.hardware.model import Hardware
    from schemas.problems.errors.repository import CannotRead

    try:
        return Hardware.model_validate_json(output)
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(str(part) for part in first["loc"])
        raise CannotRead(
            what=f"the output of {source}", why=f"{at}: {first['msg']}" if at else first["msg"]
        ) from None
