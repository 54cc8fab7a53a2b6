"""What a command answers, without the names that its reader must not see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from bai.render.printout import Printout

if TYPE_CHECKING:
    from bai.web.pass_view import PassView

_PRINTOUT = TypeAdapter(Printout)


def redacted(view: PassView, printout: Printout) -> Printout:
    """As the API gives it to whoever sees some projects."""
    return _PRINTOUT.validate_python(view.redact(_PRINTOUT.dump_python(printout, mode="json")))
