"""Parts that several kinds have: amounts by slot (`resources`, the one to read first), options of the docker
provider (`docker`, `docker_network`), and how nodes are provisioned.
"""
