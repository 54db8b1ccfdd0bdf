"""How the commands of this package end when what they were given makes no sense."""
from __future__ import annotations

import sys
from collections.abc import Callable


def main(name: str, command: Callable[[], object]) -> None:
    """Runs it. A ValueError becomes a line on stderr and exit status 2, as argparse has for its own."""
    try:
        command()
    except ValueError as error:
        print(f"{name}: error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
