"""The process that keeps one kernel, and what it and bai know of each other.

Read `supervisor` first (starts, restarts, stops, records), then `records` (what is on disk) and `observe` (a
kernel as it is now). `supervisor_setup`, `child`, `console`, `logfile`, `state_file`, `stopping` and
`file_count` run inside the supervisor; `kernel_process` and `identity` are for what enters a kernel.
"""
