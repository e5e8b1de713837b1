"""Who may come in: passwords, keys, sessions, one-time links, limits, and leaving without a trace."""
