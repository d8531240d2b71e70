"""The packages under test, and where they are installed."""

import os
import platform
import shutil
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROGRAM = Path(os.environ.get("OUTLIVE_BIN", ROOT / "target/debug/outlive"))
FOLDER = ROOT / "target/packages"
PACK = ROOT / "packaging/pack"
TOOLS = HERE / ".venvs/tools/bin"

# A server, as the packages' users name one.
SERVER = [sys.executable, str(HERE / "server.py")]

# The package for this machine. On ARM the one that there is for Linux is static; for a test that makes no difference.
TARGET = {"x86_64": "x86_64-unknown-linux-gnu", "aarch64": "aarch64-unknown-linux-musl"}[platform.machine()]

# Only a hang takes longer.
PATIENCE = 120


def output(command: list[str | Path], **settings) -> str:
    """What a command prints; it must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, **settings)
    if done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def pack() -> None:
    """Packs the program, without its debugging information: nobody ships that."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    program = FOLDER / "outlive"
    output(["strip", "-o", program, PROGRAM])
    made = ROOT / "target/packaging"
    output([program, "man", made / "man"])
    (made / "completions").mkdir(parents=True, exist_ok=True)
    for shell in ("bash", "elvish", "fish", "powershell", "zsh"):
        (made / "completions" / f"outlive.{shell}").write_text(output([program, "completions", shell]))
    output([PACK, program, TARGET, FOLDER, "--local"])
    output([PACK, "--common", FOLDER, TARGET])
    output([PACK, "--finish", FOLDER])
    program.unlink()


def one(pattern: str) -> Path:
    (found,) = FOLDER.glob(pattern)
    return found


def version() -> str:
    return output([PROGRAM, "--version"])


def environment(name: str, *beside: Path) -> Path:
    """A new virtual environment with the wheel and nothing else; `beside` are environments whose packages it sees."""
    folder = FOLDER / "venvs" / name
    venv.create(folder, clear=True, with_pip=False, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin/python", "install", "--quiet", "--no-index", "--no-deps"]
    output([*pip, "--disable-pip-version-check", one("*.whl")])
    (packages,) = folder.glob("lib/*/site-packages")
    for other in beside:
        (theirs,) = other.glob("lib/*/site-packages")
        # `addsitedir` also reads the .pth files in there.
        (packages / f"{other.name}.pth").write_text(f"import site; site.addsitedir({str(theirs)!r})\n")
    return folder
