"""Nodes brought to their profiles: what they are to be (`targets`), how they stand (`look`, `upkeep`), what a
plan says about it (`values`), and the doing (`carry`, `store`, `onward`).

What a plan does about it is decided in `reconciler.plan.nodes`.
"""
