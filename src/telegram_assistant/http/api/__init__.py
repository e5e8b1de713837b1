"""The HTTP API under /api/v1: what is asked for (models) and answered (routes)."""
