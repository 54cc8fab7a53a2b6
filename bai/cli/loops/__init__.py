"""Loops on the command line: `loop_options` and `connection_options` of the commands that run them, and
`directives` that are given to them.
"""
