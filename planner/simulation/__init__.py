"""Replaying sessions on a declared cluster in virtual time, by the planner itself. Read `values` first, then
`replay`, `incremental_planner` (a plan at every moment) and `measures` (the figures).
"""
