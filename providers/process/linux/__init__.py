"""Linux as the process provider needs it. Read `cgroup` first; cheap imports, as the supervisor has them."""
