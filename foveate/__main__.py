"""``python -m foveate``."""

from foveate.cli import main

if __name__ == "__main__":
    main()
