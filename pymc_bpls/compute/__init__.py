"""How work is compiled, cut into pieces and threaded; nothing here knows what is computed."""
