"""Terminals that are opened for others: `remote_terminal`, of a program elsewhere; `echo_shell`, of none."""
