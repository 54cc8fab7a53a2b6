"""What containers have in common, whoever runs them: `programs`, how a command is looked for in one, and
`failed_start`, what runtimes say when it cannot be started.
"""
