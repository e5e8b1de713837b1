"""Pure values and rules of Telegram Assistant: no I/O, and the clock is always an argument."""
