"""Desired against actual. `values` are what the parts tell each other; `sources` gives the desired state,
`observe` the actual one, `plan` decides what to do, `apply` does it. `workspace` puts them together,
`controller` does it again and again.
"""
