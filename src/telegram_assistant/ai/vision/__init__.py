"""Pictures: decoded, measured and read in worker processes, and made small for remote models."""
