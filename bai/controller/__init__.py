"""Loops in a process: what `bai reconcile` and `bai serve` share.

Read `loop_threads` first, then `document_sources` (a folder or a git remote), `leaders` (which loops act) and
`dispatchers` (who is notified); `systemd` is told that all is well.
"""
