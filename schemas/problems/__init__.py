"""What is wrong, where, and what would be right. `issues` is what models and rules find, `problem` the same
with its place in a file, `codes` the table of codes; `errors` holds every exception. Read `issues` first.
"""
