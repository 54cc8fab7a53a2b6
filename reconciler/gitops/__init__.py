"""The documents come from a git remote, and follow it.

`remote.py` is a bare copy of it that is brought up to date, `follow.py` decides which commit counts,
`webhook.py` tells whether a forge's message is true.
"""
