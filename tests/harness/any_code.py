"""What the tests of the fork server run in place of bai: the code that their command line has."""

import sys


def main() -> None:
    exec(sys.argv[1], {})
