"""Packing a whole queue at once. Read `repack` first, then `cutting_stock`: the problem, its values, and
`pack`, the one entry.
"""
