"""Apps of sessions: `app_list` answers what `bai open` and `bai share` ask, `by_session` is for lists."""
