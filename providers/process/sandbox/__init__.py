"""What a kernel sees of the machine, and as whom. Read `bubblewrap` first: the command inside its sandbox.

`etc`, `mounts` and `runtime_files` are what is shown in it, `seccomp` and `syscalls` what it may call;
`sandbox_init` and `user_switch` run on the way into it.
"""
