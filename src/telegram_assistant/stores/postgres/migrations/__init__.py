"""The one migration chain (LESSONS 18)."""
