"""Garbage is looked for as seldom as by a command of bai (`start_lightly`), and never among what was imported
and collected: else each test pays for all that is known here."""

from __future__ import annotations

import gc
from collections.abc import Generator

import pytest


def pytest_configure() -> None:
    gc.set_threshold(50_000, 20, 20)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
