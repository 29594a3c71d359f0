"""The command line: `python -m slipstream train ...`."""

import sys

from . import _native


def main() -> int:
    return _native.main(["slipstream", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
