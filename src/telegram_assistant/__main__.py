"""`python -m telegram_assistant` is `tga`."""

from telegram_assistant.cli import main

main()
