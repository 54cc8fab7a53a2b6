"""Placement as a pure function. Read `types.py` for the words, then `place.py`, the one entry."""
