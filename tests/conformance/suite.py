"""The official conformance suite, installed as pinned."""

import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parents[1] / "target/debug/examples"
SUITE = HERE / "node_modules/@modelcontextprotocol/conformance/dist/index.js"

# Only a hang takes as long.
PATIENCE = 300


def node() -> str:
    """A Node of version 22 or newer: the one at hand, or the pinned one."""
    pinned = [str(path) for path in HERE.glob("node_modules/node-*/bin/node")]
    for candidate in [shutil.which("node"), *pinned]:
        if candidate:
            version = subprocess.run([candidate, "--version"], capture_output=True, text=True)
            if int(version.stdout.lstrip("v").split(".")[0]) >= 22:
                return candidate
    sys.exit("conformance: Node 22 or newer is needed")


def install() -> None:
    stamp = HERE / "node_modules/.stamp"
    pins = (HERE / "package-lock.json").read_text()
    if stamp.is_file() and stamp.read_text() == pins:
        return
    print("conformance: installing the suite")
    if subprocess.run(["npm", "ci", "--silent", "--ignore-scripts"], cwd=HERE).returncode:
        sys.exit("conformance: the suite could not be installed from package-lock.json")
    stamp.write_text(pins)


def suite(*args: object) -> subprocess.CompletedProcess[str]:
    """Runs the suite to its end."""
    command = [node(), SUITE, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)


if __name__ == "__main__":
    install()
