"""Installs the hosts: a virtual environment for each file in requirements/, node_modules, and what tests/peers has."""

import subprocess
import sys
from hashlib import sha256
from pathlib import Path

HERE = Path(__file__).resolve().parent
PEERS = HERE.parent / "peers"


def everything() -> None:
    run([PEERS / "setup"])
    python_hosts()
    folder, lock = HERE / "node_modules", HERE / "package-lock.json"
    if not is_fresh(folder, lock):
        run(["npm", "ci", "--silent", "--ignore-scripts"])
        seal(folder, lock)


def python_hosts() -> None:
    for pins in sorted((HERE / "requirements").glob("*.txt")):
        environment(HERE / ".venvs" / pins.stem, pins)


def environment(folder: Path, pins: Path) -> None:
    """A virtual environment with what is pinned there, made anew if the pins have changed."""
    if not is_fresh(folder, pins):
        run([sys.executable, "-m", "venv", "--clear", folder])
        pip = [folder / "bin/pip", "install", "-q", "--disable-pip-version-check", "--no-compile", "--no-deps"]
        run([*pip, "-r", pins])
        seal(folder, pins)


def stamp(pins: Path) -> str:
    return sha256(sys.version.encode() + pins.read_bytes()).hexdigest()


def is_fresh(folder: Path, pins: Path) -> bool:
    sealed = folder / ".stamp"
    return sealed.exists() and sealed.read_text() == stamp(pins)


def seal(folder: Path, pins: Path) -> None:
    (folder / ".stamp").write_text(stamp(pins))


def run(command: list[str | Path]) -> None:
    if subprocess.run(command, cwd=HERE, stdout=sys.stderr).returncode != 0:
        sys.exit(f"run: {command[0]} failed, see above")
