"""Kernels as pods of a Kubernetes cluster, each bound to the node, and given the devices, that the plan
names: the cluster's own scheduler has nothing to decide. Read `provider` first, then `pods/create`; `api` is
how the API server is talked to, `objects` the manifests (pure), `observe` what is read of the cluster,
`volumes` what is done about volumes beside mounting them, `interaction` what a person does with a running
pod.
"""
