"""Kernels as native Linux process trees, each under a tiny supervisor of its own.

Read `provider.py` (the five things a provider does), then `supervisor.py` (what outlives bai), `cgroup.py`
(limits), `records.py` (what is on disk), `sandbox.py` (what a kernel sees). `cgroup.py`, `procfs.py`,
`files.py`, `child.py`, `logfile.py` and `supervisor.py` run inside the supervisor: they import a handful of
cheap standard-library modules only.
"""
