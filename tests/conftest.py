"""Fixtures that tests of every package may ask for."""

from tests.lab.fixtures import vm

__all__ = ["vm"]
