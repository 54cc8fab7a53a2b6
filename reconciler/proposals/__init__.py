"""A change of the documents that somebody asks for in a browser: a commit in their name, no hidden write.

`values.py` says what a proposal is, `edits.py` makes one of documents (pure), `permission.py` says what one
may touch (pure), `overlay.py` has the documents as they would be. At the edge, `commit_objects.py` makes the
commit in the bare copy of the remote, and `publish.py` pushes it (begin there).
"""
