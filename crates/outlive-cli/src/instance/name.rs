//! The name of an instance, taken from what it serves.

use std::path::Path;

/// No name is longer.
const LONGEST: usize = 48;

/// What people call a server that has no name of its own.
const NAMELESS: &str = "server";

/// Programs that only start another one, and the words between them and its name.
const RUNNERS: [(&str, &[&str]); 19] = [
    ("bun", &["run", "x"]),
    ("bunx", &[]),
    ("deno", &["run"]),
    ("docker", &["run", "container"]),
    ("env", &[]),
    ("node", &[]),
    ("npm", &["exec", "run"]),
    ("npx", &[]),
    ("outlive", &["run"]),
    ("pipx", &["run"]),
    ("pnpm", &["dlx", "exec"]),
    ("podman", &["run", "container"]),
    ("py", &[]),
    ("python", &[]),
    ("ruby", &[]),
    ("tsx", &[]),
    ("uv", &["run", "tool"]),
    ("uvx", &[]),
    ("yarn", &["dlx", "exec"]),
];

/// Flags of those programs that are followed by a value.
const WITH_VALUE: [&str; 22] = [
    "--directory",
    "--entrypoint",
    "--env",
    "--env-file",
    "--from",
    "--mount",
    "--name",
    "--network",
    "--package",
    "--project",
    "--publish",
    "--python",
    "--user",
    "--volume",
    "--with",
    "--workdir",
    "-e",
    "-p",
    "-r",
    "-u",
    "-v",
    "-w",
];

/// Names of files that say nothing about what is in them.
const NO_NAMES: [&str; 7] = ["__main__", "app", "cli", "index", "main", "mcp", "server"];

/// Names of folders that say nothing either.
const NO_FOLDERS: [&str; 9] = [
    ".", "..", "bin", "build", "debug", "dist", "out", "release", "src",
];

/// The name of what this command starts, or of the server at this address.
pub fn of(words: &[String]) -> String {
    let Some(first) = words.first() else {
        return NAMELESS.into();
    };
    if let Some((_, rest)) = first.split_once("://") {
        return tidy(of_address(rest));
    }
    let program = stem(first);
    let plain = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let runner = RUNNERS.iter().find(|(name, _)| *name == plain);
    let target = runner.and_then(|(_, between)| target(&words[1..], between));
    tidy(&target.map_or_else(|| of_path(first), of_path))
}

/// A name that somebody chose: it becomes part of file names.
pub fn chosen(name: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || ['-', '_', '.'].contains(&c);
    match name {
        "" => Err("a name has at least one character".into()),
        _ if name.len() > LONGEST => Err(format!("a name has at most {LONGEST} characters")),
        _ if name.starts_with(['.', '-']) || !name.chars().all(plain) => Err(
            "a name consists of letters, digits, `-`, `_` and `.`, and begins with neither `.` nor `-`".into(),
        ),
        _ => Ok(name.into()),
    }
}

/// The word that names what a runner starts.
fn target<'a>(words: &'a [String], between: &[&str]) -> Option<&'a str> {
    let mut words = words.iter().map(String::as_str).peekable();
    while let Some(word) = words.next() {
        match word {
            "-m" | "--module" => return words.next(),
            _ if WITH_VALUE.contains(&word) => drop(words.next()),
            _ if word.starts_with('-') || between.contains(&word) => {}
            // `env NAME=value`.
            _ if word.contains('=') => {}
            _ => return Some(word),
        }
    }
    None
}

/// The name of a file or a package; where that says nothing, of a folder it is in.
fn of_path(word: &str) -> String {
    let name = stem(word);
    if !NO_NAMES.contains(&name.as_str()) {
        return name;
    }
    let folders = Path::new(word)
        .parent()
        .into_iter()
        .flat_map(Path::ancestors);
    let names = folders.filter_map(|folder| folder.file_name()?.to_str());
    let mut telling = names.filter(|name| !NO_FOLDERS.contains(name) && !name.starts_with('@'));
    telling.next().map_or(name, str::to_owned)
}

/// The last part of a path or of a package's name, without version, tag and ending.
fn stem(word: &str) -> String {
    let last = word.rsplit(['/', '\\']).find(|part| !part.is_empty());
    let last = last.unwrap_or(word);
    // `server@1.2`, `mcp/time:latest`, `mcp-server-time==1.0`, `server[extra]`.
    let end = last
        .find(['@', ':', '=', '[', '<', '>'])
        .filter(|at| *at > 0);
    let name = &last[..end.unwrap_or(last.len())];
    let endings = [
        ".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".sh", ".exe", ".cmd",
    ];
    let without = endings.iter().find_map(|ending| name.strip_suffix(ending));
    without.unwrap_or(name).to_owned()
}

/// The host of an address; on this machine many have the same, so the port says which.
fn of_address(rest: &str) -> &str {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    let local = ["localhost", "127.", "[::1]"];
    match host.rsplit_once(':') {
        Some((name, port))
            if port.bytes().all(|b| b.is_ascii_digit())
                && !local.iter().any(|local| name.starts_with(local)) =>
        {
            name
        }
        _ => host,
    }
}

/// The name as part of a file name.
fn tidy(name: &str) -> String {
    let safe = |c: char| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' | '.' => c,
        _ => '-',
    };
    let name: String = name.chars().map(safe).take(LONGEST).collect();
    match name.trim_matches(['.', '-']) {
        "" => NAMELESS.into(),
        name => name.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(line: &str) -> String {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        of(&words)
    }

    #[test]
    fn names_are_what_people_call_their_servers() {
        for (line, name) in [
            ("uvx mcp-server-time", "mcp-server-time"),
            (
                "uvx --from git+https://x/y mcp-time@1.2 --tz UTC",
                "mcp-time",
            ),
            (
                "/usr/bin/npx -y @modelcontextprotocol/server-everything@latest",
                "server-everything",
            ),
            ("npx --package=x @scope/tool", "tool"),
            ("uv --directory /srv/weather run server.py", "server"),
            ("uv tool run mcp-git", "mcp-git"),
            ("python3.11 -u -m mcp_server_fetch", "mcp_server_fetch"),
            ("python /home/me/weather/server.py", "weather"),
            ("node ./weather/build/index.js", "weather"),
            ("node index.js", "index"),
            ("docker run -i --rm -e TOKEN mcp/time:1.0", "time"),
            ("env A=b ./target/release/server", "target"),
            ("sh -c exec", "sh"),
            ("./my-server --port 3", "my-server"),
            ("outlive run -- ./inner", "inner"),
            ("https://example.com/mcp", "example.com"),
            ("https://user:pw@example.com:8443/mcp?key=1", "example.com"),
            ("http://localhost:8080/mcp", "localhost-8080"),
            ("http://[::1]:80/mcp", "::1--80"),
            ("/", "server"),
            ("../../etc/", "etc"),
        ] {
            let name = tidy(name);
            assert_eq!(named(line), name, "{line}");
        }
        assert_eq!(of(&[]), "server");
        assert_eq!(of(&["x".repeat(99)]).len(), LONGEST);
    }

    #[test]
    fn a_name_cannot_leave_its_folder() {
        for name in ["..", "a/b", ".hidden", "-n", "", "a b", "\u{1b}"] {
            assert!(chosen(name).is_err(), "{name}");
            let derived = named(&format!("./{name}"));
            assert!(chosen(&derived).is_ok(), "{derived}");
        }
        assert_eq!(chosen("my.time_2-b").as_deref(), Ok("my.time_2-b"));
    }
}
