"""What becomes of who has no room. Read `waits` first, then `explain` (why), `forecast` and `queue_forecast`
(until when), `backfill` (who may go before) and `preemption` (who makes room).
"""
