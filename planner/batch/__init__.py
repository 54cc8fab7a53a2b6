"""Packing a whole queue at once. Read `cutting.py`: the problem, its values, and `pack`, the one entry."""
