"""What is there and what happened, gathered and printed: `resource_list` for `bai get`, `description` for
one resource.
"""
