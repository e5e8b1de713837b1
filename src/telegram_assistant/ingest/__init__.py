"""Capture: the scheduler's tick, reading a channel, saving what was read, and the proof that nothing is missing."""
