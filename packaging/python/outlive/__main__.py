"""`python -m outlive`: the program."""

import os
import subprocess
import sys

from ._executable import executable


def main() -> int:
    command = [executable(), *sys.argv[1:]]
    if os.name == "nt":
        # There is no exec on Windows: what calls itself so starts another process and leaves.
        return subprocess.run(command).returncode
    os.execv(command[0], command)


if __name__ == "__main__":
    sys.exit(main())
