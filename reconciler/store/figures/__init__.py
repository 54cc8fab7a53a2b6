"""Figures over time: how rows are written, added up, forgotten and read."""
