"""The section of each Ansible role, a module per role by its name; `field_types` has the types of their
fields. Read `base` first.
"""
