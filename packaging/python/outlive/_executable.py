"""Where the program is."""

import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

_NAME = "outlive.exe" if os.name == "nt" else "outlive"


def executable() -> str:
    """The path of the program: of this package's own, or else of one that is installed otherwise."""
    for folder in _folders():
        path = Path(folder, _NAME)
        if path.is_file():
            return str(path)
    if found := shutil.which("outlive"):
        return found
    raise FileNotFoundError(
        "the program outlive is neither in this environment nor on the PATH: the package was copied without it; "
        "install it with `pip install --force-reinstall outlive`"
    )


def _folders() -> Iterator[str]:
    """Where installers put programs: for this environment, for a user, and with `--target` and `--prefix`."""
    yield sysconfig.get_path("scripts")
    yield sysconfig.get_path("scripts", scheme=sysconfig.get_preferred_scheme("user"))
    package = Path(__file__).resolve().parent
    folder = "Scripts" if os.name == "nt" else "bin"
    yield str(package.parent / folder)
    # lib/python3.x/site-packages/outlive, or Lib/site-packages/outlive
    above = package.parents
    depth = 2 if os.name == "nt" else 3
    if len(above) > depth:
        yield str(above[depth] / folder)
    yield str(Path(sys.prefix, folder))
