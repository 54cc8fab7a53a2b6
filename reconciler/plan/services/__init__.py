"""Services become the sessions of their replicas, before anything else is decided: `replicas` says how those
stand that there are, `goal` how many of which generation are to be, `rollout` which come and go next, and
`expand` puts it together for a plan."""
