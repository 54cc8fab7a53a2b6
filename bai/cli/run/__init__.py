"""`bai run`: a session written into git and started. Read `run_session` first.

`session_request` makes the document, `templates` fills one in for `bai template` as well.
"""
