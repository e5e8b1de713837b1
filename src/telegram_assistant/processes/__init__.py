"""Every process that we start, and the child's side of those that answer requests."""
