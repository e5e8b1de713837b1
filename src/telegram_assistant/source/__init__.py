"""Where posts come from: Telegram's accounts. Only the files named `telegram*.py` here may import telethon."""
