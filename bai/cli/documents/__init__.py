"""Documents changed by commands, as commits: `bai cancel`, `hold`, `release`, `priority`.

Read `change_sessions` first; `commit` is shared with `bai run`.
"""
