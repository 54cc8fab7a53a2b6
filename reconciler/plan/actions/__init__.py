"""What is done about every resource, as actions of the plan. Read `make_actions` first, then
`session_actions`.

`sides` says what there is before an action, `kernel_specs` what a provider is handed after it; `order` says
which action waits for which.
"""
