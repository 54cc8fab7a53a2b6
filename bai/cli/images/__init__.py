"""`bai images`: read `list` first; `registries`, `scan`, `pull` and `verify` each ask somebody else."""
