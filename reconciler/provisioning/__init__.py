"""Nodes brought to their profiles: what they are to be (`targets`), why that is to be done (`reasons`), how
plans follow each other (`wave_sequence`), and what the loop remembers and says of it (`loop_watch`).

What a plan does about it is decided in `reconciler.plan.nodes`, the doing is in `reconciler.apply`.
"""
