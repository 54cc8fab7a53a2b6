"""When garbage is looked for."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def garbage_is_left() -> Iterator[None]:
    """Meanwhile none is looked for: for the work of a command that ends with it, and keeps nearly all that it
    makes until then. Looking through ten thousand sessions costs a tenth of planning them."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
