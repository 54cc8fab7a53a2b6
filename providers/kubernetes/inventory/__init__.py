"""What is in a cluster already, as documents: what `bai import kubernetes` writes. `read` asks the API
server; all else is pure: `nodes` and `tenancy` make documents, `session` one of each pod that can be adopted,
by `environment`, `held` and `obstacles`. `adopt` is the one thing that changes anything.
"""
