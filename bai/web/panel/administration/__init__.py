"""Pages for those who look after a cluster: projects and users, groups and nodes, storage and images, who is
told what, and who changed what. Begin with `routes.py`; each subject has values of its own beside it."""
