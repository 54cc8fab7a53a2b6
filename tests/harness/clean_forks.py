"""Processes for functions of tests: forks of one that has no threads, where a fork of this one would have the
locks of its threads, and nobody to release them."""

from __future__ import annotations

import multiprocessing

FORKS = multiprocessing.get_context("forkserver")
# Imported once, by what is forked: a function of a test brings pytest with it.
FORKS.set_forkserver_preload(["pytest", "reconciler.store.store", "schemas.hardware.importers"])
