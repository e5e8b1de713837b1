"""Telegram Assistant: captures every post of the channels you watch, provably without a gap."""

__version__ = "0.1.0"
