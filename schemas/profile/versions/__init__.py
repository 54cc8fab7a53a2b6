"""Whether the exact versions of a profile can work together, a module per subject. `compatibility` asks
them all: read it first.
"""
