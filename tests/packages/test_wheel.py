"""The wheel: the program, the module, and what SDKs and frameworks make of both."""

import json
import os
import re
import subprocess
import sys
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from packed import FOLDER, HERE, PROGRAM, ROOT, SERVER, TOOLS, environment, one, output, version

PEERS, HOSTS = HERE.parent / "peers/.venvs", HERE.parent / "hosts/.venvs"
# Environment of the framework, and its name in host.py.
FRAMEWORKS = {
    PEERS / "mcp-1.30.0": "mcp",
    PEERS / "mcp-2.3.0": "mcp",
    PEERS / "livekit-1.8.9": "livekit",
    HOSTS / "openai-agents": "openai_agents",
    HOSTS / "pydantic-ai": "pydantic_ai",
    HOSTS / "langchain": "langchain",
}


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = environment("empty")
        cls.python = cls.folder / "bin/python"

    def in_python(self, words: str) -> str:
        return output([self.python, "-c", words]).strip()

    def test_the_program_runs(self) -> None:
        self.assertEqual(output([self.folder / "bin/outlive", "--version"]), version())
        self.assertEqual(output([self.python, "-m", "outlive", "--version"]), version())

    def test_the_demo_keeps_its_promises(self) -> None:
        told = json.loads(output([self.folder / "bin/outlive", "demo", "--json"]))
        self.assertEqual(told["problems"], [])

    def test_uvx_runs_it_from_the_wheel(self) -> None:
        settings = {**os.environ, "UV_CACHE_DIR": str(FOLDER / "uv"), "UV_PYTHON": sys.executable}
        command = [TOOLS / "uvx", "--offline", "--from", one("*.whl"), "outlive", "demo", "--json"]
        self.assertEqual(json.loads(output(command, env=settings))["problems"], [])

    def test_the_module_finds_its_own_program(self) -> None:
        found = self.in_python("import outlive; print(outlive.executable())")
        self.assertEqual(Path(found), self.folder / "bin/outlive")

    def test_a_target_folder_has_program_and_module_too(self) -> None:
        target = FOLDER / "target-folder"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", target]
        output([*pip, "--disable-pip-version-check", one("*.whl")])
        words = "import outlive; print(outlive.executable())"
        found = output([sys.executable, "-c", words], env={**os.environ, "PYTHONPATH": str(target)})
        self.assertEqual(Path(found.strip()), target / "bin/outlive")

    def test_the_policy_is_what_run_takes(self) -> None:
        names = self.in_python("import outlive; print(*outlive.Policy.__annotations__)").split()
        self.assertEqual({"--" + name.replace("_", "-") for name in names}, settings_of_run())

    def test_a_policy_becomes_flags(self) -> None:
        words = (
            "import outlive, datetime, pathlib; print(outlive.stdio(pathlib.Path('/bin/cat'), '-u', hold=1.5, max_held=7,"
            " request_timeout=datetime.timedelta(minutes=1), exit_on_failed=True, no_keep_logs=False, header=['A:1', 'B:2'])"
            ".args)"
        )
        flags = "--hold=1500ms --max-held=7 --request-timeout=60000ms --exit-on-failed --header=A:1 --header=B:2".split()
        self.assertEqual(self.in_python(words), str(["run", *flags, "--", "/bin/cat", "-u"]))

    def test_an_unknown_setting_is_refused_by_name(self) -> None:
        words = "import outlive; outlive.stdio('cat', holt=1)"
        refused = subprocess.run([self.python, "-c", words], capture_output=True, text=True)
        self.assertIn("TypeError: outlive has no setting 'holt'", refused.stderr)

    def test_the_kinds_are_those_of_the_page(self) -> None:
        kinds = self.in_python("import outlive; print(*outlive.errors.OutliveError._kinds)").split()
        self.assertEqual(set(kinds), kinds_of_the_page())

    def test_what_is_not_ours_is_nothing(self) -> None:
        words = """
import outlive
ours = {"code": -31002, "message": "no", "data": {"outlive": {"kind": "unavailable", "outcome": "not_sent",
        "generation": 3, "retryable": True, "cause": {"kind": "exited", "exit_code": 1, "stderr_tail": ["x"]}}}}
of = outlive.errors.of
assert of(None) is None and of(ValueError("x")) is None and of({"code": 1, "data": {"outlive": 7}}) is None
found = of(ours)
assert isinstance(found, outlive.errors.Unavailable) and found.retryable and found.generation == 3
assert found.cause.exit_code == 1 and found.cause.stderr_tail == ("x",) and str(found) == "no"
assert of(found) is found
try:
    try:
        raise found
    except Exception as error:
        raise RuntimeError("wrapped") from error
except Exception as error:
    assert of(error) is found and of(ExceptionGroup("several", [ValueError(), error])) is found
ours["data"]["outlive"]["kind"] = "of_a_later_version"
assert type(of(ours)) is outlive.errors.OutliveError and of(ours).kind == "of_a_later_version"
"""
        self.in_python(words)

    def test_the_types_hold(self) -> None:
        (packages,) = self.folder.glob("lib/*/site-packages")
        mypy = [TOOLS / "mypy", "--strict", "--python-executable", self.python, "--cache-dir", FOLDER / "mypy"]
        output([*mypy, HERE / "usage.py", "--follow-imports=silent"])
        output([*mypy, "--ignore-missing-imports", "--disable-error-code=unused-ignore", packages / "outlive"])


class Frameworks(unittest.TestCase):
    def test_the_error_of_a_dying_server_is_understood_and_the_next_call_works(self) -> None:
        def seen(entry: tuple[Path, str]) -> dict:
            beside, framework = entry
            python = environment(f"beside-{beside.name}", beside) / "bin/python"
            return json.loads(output([python, HERE / "host.py", framework, *SERVER]).splitlines()[-1])

        with ThreadPoolExecutor(2) as pool:
            results = dict(zip(FRAMEWORKS, pool.map(seen, FRAMEWORKS.items()), strict=True))
        for beside, result in results.items():
            with self.subTest(beside.name):
                died = result["die"]
                self.assertEqual(died.get("ours"), "ConnectionLost", result)
                self.assertEqual((died["outcome"], died["signal"], died["code"]), ("unknown", 9, -31001))
                self.assertEqual((died["generation"], died["retryable"]), (1, False))
                self.assertIn("signal 9 (SIGKILL)", died["message"])
                self.assertEqual(result["refuse"].get("ours", "NoneType"), "NoneType", result)
                self.assertTrue(result["another server"])


def settings_of_run() -> set[str]:
    """The settings of one server as `outlive run --help` lists them; not those of several."""
    text = output([PROGRAM, "run", "--help"])
    kept, keep = set(), True
    for line in text.splitlines():
        if heading := re.fullmatch(r"([A-Z][A-Za-z ]+):", line):
            keep = heading[1] != "Several servers"
        elif keep and (flag := re.match(r" +(?:-\w, )?(--[a-z-]+)", line)):
            kept.add(flag[1])
    return kept - {"--help", "--parent-pid"}


def kinds_of_the_page() -> set[str]:
    page = (ROOT / "docs/errors.md").read_text()
    return set(re.findall(r"^\| `([a-z_]+)` \| −3", page, re.MULTILINE))
