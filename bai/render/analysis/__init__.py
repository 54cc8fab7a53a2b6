"""Reports: `report` has their titled tables, which `explain`, `capacity` and `simulation` fill.

`top_rows` and `top_table` show use as it is measured, `chart` draws curves.
"""
