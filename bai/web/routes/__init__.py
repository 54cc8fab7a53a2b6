"""One module of routes for each subject: `clusters` first, which viewers read; `directives` are orders to
loops.
"""
