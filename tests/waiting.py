"""Waiting for what the world does in its own time, as the published tests of providers do."""

from providers.conformance.waiting import soon, until

__all__ = ["soon", "until"]
