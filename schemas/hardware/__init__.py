"""What a machine is: `model` first, then `capture_reader`, which reads a capture of any format (`importers`,
`sysfs`); `exporters` writes it for other tools.
"""
