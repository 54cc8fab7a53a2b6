"""The reconcile loop. Read `loop` first: it observes, plans and applies, again and again.

`cycle` is what came of one round, `stages` tells how far one has come, `backoff` leaves alone what keeps
failing, `loop_options` says how it goes. `leader` elects one of several replicas (`replica`), `standby` keeps
the others informed; `pass_note` keeps in the store how the last pass ended.
"""
