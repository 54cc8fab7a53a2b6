"""What the documents of a cluster mean, as far as both observing and planning have to know it. Pure.

Read `idle_rules` first: it says which sessions are measured, and the plan says what follows from that.
"""
