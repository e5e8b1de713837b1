"""Answers of the API that are too big for the file of their route."""
