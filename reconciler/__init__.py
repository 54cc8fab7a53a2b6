"""Desired against actual. Read `plan.py` for the values, then `observe.py`, `diff/`, `apply.py`: read,
decide, act."""
