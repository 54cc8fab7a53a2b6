"""What a person does with a container that runs. Read `interaction` first; `execute` and `attach` are
commands and the terminal, `forward` and `relay` ports, `logs` the output.
"""
