"""Plans and reviews on the command line: `apply_plan` first, then `show_plan`, `execute_plan` and
`post_review`.
"""
