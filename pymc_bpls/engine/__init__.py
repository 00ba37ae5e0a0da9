"""Verified modes, Hessians and refits of many candidates."""
