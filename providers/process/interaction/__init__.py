"""What a person does with a kernel: commands, terminal, files, ports. Read `interaction` first, then
`execute`.

`enter` runs as the helper that becomes the command; `relay` and `terminal` join its streams to the caller's.
"""
