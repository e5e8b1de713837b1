"""The entry point of `tga` and of `python -m telegram_assistant`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    try:
        from telegram_assistant.cli.main import run  # noqa: PLC0415 - so that Ctrl-C during the imports is quiet too

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
