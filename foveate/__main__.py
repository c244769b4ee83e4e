"""The command's door: ``foveate`` and ``python -m foveate``."""

import sys

INTERRUPTED = 130
"""Exit code of a command that Ctrl-C has ended, as shells count: 128 and the signal's number."""


def main() -> None:
    """Run the command; what is stopped while it still loads its parts ends without a word."""
    try:
        from foveate.cli import main as command
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    command()


if __name__ == "__main__":
    main()
