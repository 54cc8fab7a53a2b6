"""What holds a session back before nodes are looked at: read `eligibility` first, then `quota` and
`reserved_nodes`.
"""
