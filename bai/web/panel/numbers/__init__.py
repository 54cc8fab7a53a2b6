"""How things went: plots of what passes told over time, hours by project and user, and use as it is now. Read
`plots` first."""
