"""Kernels as native Linux process trees, each under a tiny supervisor of its own.

Read `provider` first (what a provider does, on this machine), then `launch` (from a spec to a supervisor).
`supervision` is what outlives bai, and what is on disk; `sandbox` what a kernel sees; `interaction` what a
person does with one that runs; `linux` control groups, /proc and files. What runs inside the supervisor or
enters a kernel says "cheap imports only": a handful of modules of the standard library.
"""
