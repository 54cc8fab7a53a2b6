"""`bai nodes`: read `list` first; `check` and `probe` ask the nodes, `show` draws one."""
