"""`bai volumes`: `list` counts what they hold, `trash` has the deleted ones."""
