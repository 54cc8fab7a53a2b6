"""Which commits are followed: who signed them, and whose the paths are that they change.

`trust_file.py` reads what the owner of the cluster says, `commit_object.py` a commit's own bytes,
`commit_history.py` asks git, `signatures.py` has GnuPG and OpenSSH verify, `codeowners.py` knows whose a path
is (pure), and `gate.py` puts them together (begin there): a commit passes, or the refusals say why not.
"""
