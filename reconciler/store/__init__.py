"""What was decided, remembered: tables, migrations, leases, journal, events.

Read `store` for what it offers; `database` is what SQLite and PostgreSQL need, `maintenance` what is done to
a store as a whole: migrations, safety copies, moves.
"""
