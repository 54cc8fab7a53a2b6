"""Replaying sessions on a declared cluster in virtual time, by the planner itself."""
