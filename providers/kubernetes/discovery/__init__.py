"""What others have found out of nodes and say in the cluster: labels of Node Feature Discovery and GPU
Feature Discovery (`features`), NodeResourceTopology objects (`zones`). Whoever may write these is believed
where drivers say nothing.
"""
