"""Runs as `self_train` and `resume` do them: of one model or a set, over a pool in memory or a lazy one."""
