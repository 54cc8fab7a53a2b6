"""What a person does with a kernel's pod. Read `interaction` first; `channels` is the connection of commands
(`execute`), terminals (`attach`) and files (`copy`), `forward` that of ports; `logs` is the output, with
`log_cursor` to go on where it broke off; `container_state` what a pod tells of its container; `usage` what
pods use.
"""
