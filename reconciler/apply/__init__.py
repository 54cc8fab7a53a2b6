"""A plan carried out, and nothing decided. Read `apply` first; `executor` is the engine.

`steps` makes an action into ordered steps, `action_graph` a plan into parts that wait for each other, and
`graph_walk` says what may start. `effects` does one step on the `targets`, in a thread of `effect_runner`;
`journal_writer` writes down what is about to happen and how it went.
"""
