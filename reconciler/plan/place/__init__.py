"""Where sessions are to be. Read `place_sessions` first; `solve` asks the planner, `snapshot` is what it is
asked with, `placement_result` what comes of it.
"""
