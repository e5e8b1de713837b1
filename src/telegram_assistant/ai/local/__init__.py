"""Models inside wheels, in a worker process of their own: they need no account."""
