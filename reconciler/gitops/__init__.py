"""The documents come from a git remote, and follow it.

`remote.py` is a bare copy of it that is brought up to date, `revision_tracker.py` decides which commit
counts, `document_source.py` gives a loop its documents (begin there), `webhook_verifier.py` tells whether a
forge's message is true, with `rate_limit.py` for those that are not. `directives.py` keeps what people have
told the loop (pin, suspend, approve); `submit.py` commits and pushes one document.
"""
