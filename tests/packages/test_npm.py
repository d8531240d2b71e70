"""The npm packages: the launcher, the module, and what the TypeScript SDKs make of both."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
import unittest
from pathlib import Path

from packed import FOLDER, HERE, PATIENCE, SERVER, one, output, version
from test_wheel import kinds_of_the_page, settings_of_run

PEERS = HERE.parent / "peers"


def processes_with(mark: str) -> dict[int, str]:
    """Processes that have this in their environment, and their names."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (entry / "environ").read_bytes():
                found[int(entry.name)] = (entry / "comm").read_text().strip()
        except OSError:
            continue
    return found


def until(what: str, look) -> None:
    end = time.monotonic() + PATIENCE
    while not look():
        if time.monotonic() > end:
            raise AssertionError(f"waited in vain for {what}")
        time.sleep(0.05)


class Npm(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = FOLDER / "npm"
        cls.folder.mkdir()
        (cls.folder / "package.json").write_text('{"name": "empty", "private": true}')
        cls.tarballs = [one("outlive-[0-9]*.tgz"), one("outlive-linux-*.tgz")]
        install = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--silent"]
        output([*install, *cls.tarballs], cwd=cls.folder)
        cls.launcher = cls.folder / "node_modules/.bin/outlive"

    def test_the_program_runs(self) -> None:
        self.assertEqual(output([self.launcher, "--version"]), version())

    def test_the_demo_keeps_its_promises(self) -> None:
        told = json.loads(output([self.launcher, "demo", "--json"]))
        self.assertEqual(told["problems"], [])

    def test_npx_runs_it_from_the_tarballs(self) -> None:
        empty = FOLDER / "npx"
        empty.mkdir()
        packages = [word for tarball in self.tarballs for word in ("--package", tarball)]
        settings = {**os.environ, "npm_config_cache": str(FOLDER / "npm-cache")}
        said = output(["npx", "--yes", *packages, "--", "outlive", "--version"], cwd=empty, env=settings)
        self.assertEqual(said, version())

    def test_exit_codes_pass(self) -> None:
        refused = subprocess.run([self.launcher, "run", "--hold", "soon", "--", "cat"], capture_output=True)
        self.assertEqual(refused.returncode, 2)

    def started(self, mark: str) -> subprocess.Popen:
        """The launcher with a server in service, and its input open."""
        command = [self.launcher, "run", "--log-level", "quiet", "--", *SERVER]
        settings = {**os.environ, "PACKAGES_TEST": mark}
        pipe = subprocess.PIPE
        launcher = subprocess.Popen(command, env=settings, stdin=pipe, stdout=pipe, text=True)
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "0"}}
        request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
        launcher.stdin.write(json.dumps(request) + "\n")
        launcher.stdin.flush()
        self.assertIn("serverInfo", launcher.stdout.readline())
        self.addCleanup(launcher.stdout.close)
        self.addCleanup(launcher.stdin.close)
        return launcher

    def test_killing_only_the_launcher_leaves_nothing_behind(self) -> None:
        launcher = self.started("kill-launcher")
        names = processes_with("PACKAGES_TEST=kill-launcher").values()
        self.assertIn("outlive", names)
        self.assertTrue(any(name.startswith("python") for name in names), names)
        launcher.kill()
        launcher.wait(PATIENCE)
        until("the end of all", lambda: not processes_with("PACKAGES_TEST=kill-launcher"))

    def test_a_signal_to_the_launcher_reaches_the_program(self) -> None:
        launcher = self.started("stop-launcher")
        launcher.send_signal(signal.SIGTERM)
        self.assertEqual(launcher.wait(PATIENCE), 0)
        until("the end of all", lambda: not processes_with("PACKAGES_TEST=stop-launcher"))

    def test_without_the_package_of_the_platform_it_says_what_is_missing(self) -> None:
        lone = FOLDER / "lone"
        shutil.copytree(self.folder / "node_modules/outlive", lone)
        refused = subprocess.run(["node", lone / "bin/outlive.js", "--version"], capture_output=True, text=True)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("none of @outlive/linux-", refused.stderr)

    def test_the_typescript_sdks_understand_the_error_of_a_dying_server(self) -> None:
        shutil.copy(HERE / "host.mjs", self.folder)
        for generation in ("sdk", "client"):
            with self.subTest(generation):
                command = ["node", self.folder / "host.mjs", PEERS, generation, *SERVER]
                result = json.loads(output(command).splitlines()[-1])
                died = result["die"]
                self.assertEqual((died.get("ours"), died.get("isError")), ("ConnectionLost", True), result)
                self.assertEqual((died["outcome"], died["signal"], died["code"]), ("unknown", 9, -31001))
                self.assertEqual((died["generation"], died["retryable"]), (1, False))
                self.assertRegex(died["message"], r"^The server was ended by signal 9 \(SIGKILL\)")
                self.assertIsNone(result["refuse"].get("ours"), result)
                self.assertTrue(result["another server"])

    def test_the_kinds_are_those_of_the_page(self) -> None:
        words = "console.log(Object.keys(require('outlive/errors.js').KINDS).join(' '))"
        self.assertEqual(set(output(["node", "-e", words], cwd=self.folder).split()), kinds_of_the_page())

    def test_the_policy_is_what_run_takes(self) -> None:
        words = "console.log([...require('outlive/policy.js').NAMES].join(' '))"
        names = output(["node", "-e", words], cwd=self.folder).split()
        flags = {"--" + re.sub("[A-Z]", lambda letter: "-" + letter[0].lower(), name) for name in names}
        self.assertEqual(flags, settings_of_run())
        types = (self.folder / "node_modules/outlive/index.d.ts").read_text()
        policy = types.split("export interface Policy {")[1].split("}")[0]
        self.assertEqual(set(re.findall(r"(\w+)\?:", policy)), set(names))

    def test_the_types_hold(self) -> None:
        shutil.copy(HERE / "usage.ts", self.folder)
        tsc = ["node", HERE / "node_modules/typescript/bin/tsc", "--noEmit", "--strict", "--module", "nodenext"]
        output([*tsc, "--lib", "es2022,dom", self.folder / "usage.ts"], cwd=self.folder)
