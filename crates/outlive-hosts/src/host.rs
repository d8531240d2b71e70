//! The hosts, and where each keeps its file.

use std::path::PathBuf;

use crate::shape::Shape;

/// A program that starts MCP servers from a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// Claude Desktop.
    ClaudeDesktop,
    /// Claude Code.
    ClaudeCode,
    /// Cursor.
    Cursor,
    /// VS Code.
    VsCode,
    /// Windsurf.
    Windsurf,
    /// Zed.
    Zed,
    /// Codex.
    Codex,
    /// Gemini CLI.
    GeminiCli,
    /// Goose.
    Goose,
    /// OpenCode.
    OpenCode,
}

/// An operating system, as far as it decides where files are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    /// Linux and other Unixes.
    Linux,
    /// macOS.
    MacOs,
    /// Windows.
    Windows,
}

impl Platform {
    /// The one this program was built for.
    pub fn current() -> Platform {
        match std::env::consts::OS {
            "macos" => Platform::MacOs,
            "windows" => Platform::Windows,
            _ => Platform::Linux,
        }
    }
}

impl Host {
    /// All of them.
    pub const ALL: [Host; 10] = [
        Host::ClaudeDesktop,
        Host::ClaudeCode,
        Host::Cursor,
        Host::VsCode,
        Host::Windsurf,
        Host::Zed,
        Host::Codex,
        Host::GeminiCli,
        Host::Goose,
        Host::OpenCode,
    ];

    /// Its name on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Host::ClaudeDesktop => "claude-desktop",
            Host::ClaudeCode => "claude-code",
            Host::Cursor => "cursor",
            Host::VsCode => "vscode",
            Host::Windsurf => "windsurf",
            Host::Zed => "zed",
            Host::Codex => "codex",
            Host::GeminiCli => "gemini-cli",
            Host::Goose => "goose",
            Host::OpenCode => "opencode",
        }
    }

    /// The host of this name.
    pub fn named(name: &str) -> Option<Host> {
        Host::ALL.into_iter().find(|host| host.name() == name)
    }

    /// How its file is spelled.
    pub fn shape(self) -> Shape {
        match self {
            Host::ClaudeDesktop
            | Host::ClaudeCode
            | Host::Cursor
            | Host::Windsurf
            | Host::GeminiCli => Shape::McpServers,
            Host::VsCode => Shape::Servers,
            Host::Zed => Shape::ContextServers,
            Host::Codex => Shape::Codex,
            Host::Goose => Shape::Extensions,
            Host::OpenCode => Shape::Mcp,
        }
    }

    /// Where the user's own file can be, the likeliest place first; none if the environment does not say where the
    /// user's files are. `value` is the environment.
    pub fn files(self, platform: Platform, value: impl Fn(&str) -> Option<String>) -> Vec<PathBuf> {
        let places = Places {
            platform,
            value: &value,
        };
        self.possible(&places).into_iter().flatten().collect()
    }

    fn possible(self, places: &Places<'_>) -> Vec<Option<PathBuf>> {
        match self {
            Host::ClaudeDesktop => vec![places.app_data(&["Claude", "claude_desktop_config.json"])],
            Host::ClaudeCode => vec![match places.named("CLAUDE_CONFIG_DIR") {
                Some(directory) => Some(places.join(directory, &[".claude.json"])),
                None => places.home(&[".claude.json"]),
            }],
            Host::Cursor => vec![places.home(&[".cursor", "mcp.json"])],
            Host::VsCode => vec![places.app_data(&["Code", "User", "mcp.json"])],
            Host::Windsurf => vec![places.home(&[".codeium", "windsurf", "mcp_config.json"])],
            // Only on Windows does Zed keep to the system's directory.
            Host::Zed => vec![match places.platform {
                Platform::Windows => places.app_data(&["Zed", "settings.json"]),
                Platform::MacOs => places.home(&[".config", "zed", "settings.json"]),
                Platform::Linux => places.config(&["zed", "settings.json"]),
            }],
            Host::Codex => vec![match places.named("CODEX_HOME") {
                Some(directory) => Some(places.join(directory, &["config.toml"])),
                None => places.home(&[".codex", "config.toml"]),
            }],
            Host::GeminiCli => vec![match places.named("GEMINI_CLI_HOME") {
                Some(directory) => Some(places.join(directory, &[".gemini", "settings.json"])),
                None => places.home(&[".gemini", "settings.json"]),
            }],
            Host::Goose => vec![match (places.named("GOOSE_PATH_ROOT"), places.platform) {
                (Some(directory), _) => Some(places.join(directory, &["config", "config.yaml"])),
                (None, Platform::Windows) => {
                    places.app_data(&["Block", "goose", "config", "config.yaml"])
                }
                (None, _) => places.config(&["goose", "config.yaml"]),
            }],
            Host::OpenCode => {
                let named = places.named("OPENCODE_CONFIG").map(PathBuf::from);
                let usual = ["opencode.json", "opencode.jsonc"]
                    .map(|name| places.config(&["opencode", name]));
                [named].into_iter().chain(usual).collect()
            }
        }
    }
}

/// The directories of a user.
struct Places<'a> {
    platform: Platform,
    value: &'a dyn Fn(&str) -> Option<String>,
}

impl Places<'_> {
    fn named(&self, name: &str) -> Option<String> {
        (self.value)(name).filter(|value| !value.is_empty())
    }

    fn join(&self, directory: String, parts: &[&str]) -> PathBuf {
        // Paths of another platform are made of its own separators, so that this can be tested on any.
        let separator = match self.platform {
            Platform::Windows => "\\",
            _ => "/",
        };
        let directory = directory.trim_end_matches(separator);
        PathBuf::from([&[directory], parts].concat().join(separator))
    }

    fn home(&self, parts: &[&str]) -> Option<PathBuf> {
        let name = match self.platform {
            Platform::Windows => "USERPROFILE",
            _ => "HOME",
        };
        Some(self.join(self.named(name)?, parts))
    }

    /// `~/.config`, or what the user has in its place.
    fn config(&self, parts: &[&str]) -> Option<PathBuf> {
        match self.named("XDG_CONFIG_HOME") {
            Some(directory) => Some(self.join(directory, parts)),
            None => self.home(&[&[".config"], parts].concat()),
        }
    }

    /// Where desktop applications keep their settings.
    fn app_data(&self, parts: &[&str]) -> Option<PathBuf> {
        match self.platform {
            Platform::Linux => self.config(parts),
            Platform::MacOs => self.home(&[&["Library", "Application Support"], parts].concat()),
            Platform::Windows => Some(self.join(self.named("APPDATA")?, parts)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(host: Host, platform: Platform, variables: &[(&str, &str)]) -> String {
        let value = |name: &str| {
            let found = variables.iter().find(|(it, _)| *it == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let files = host.files(platform, value);
        files
            .first()
            .map_or(String::new(), |file| file.display().to_string())
    }

    #[test]
    fn every_host_has_its_file_on_every_platform() {
        let unix = [("HOME", "/h")];
        let windows = [("USERPROFILE", "C:\\U"), ("APPDATA", "C:\\A")];
        for (host, linux, mac, win) in [
            (
                Host::ClaudeDesktop,
                "/h/.config/Claude/claude_desktop_config.json",
                "/h/Library/Application Support/Claude/claude_desktop_config.json",
                "C:\\A\\Claude\\claude_desktop_config.json",
            ),
            (
                Host::ClaudeCode,
                "/h/.claude.json",
                "/h/.claude.json",
                "C:\\U\\.claude.json",
            ),
            (
                Host::Cursor,
                "/h/.cursor/mcp.json",
                "/h/.cursor/mcp.json",
                "C:\\U\\.cursor\\mcp.json",
            ),
            (
                Host::VsCode,
                "/h/.config/Code/User/mcp.json",
                "/h/Library/Application Support/Code/User/mcp.json",
                "C:\\A\\Code\\User\\mcp.json",
            ),
            (
                Host::Windsurf,
                "/h/.codeium/windsurf/mcp_config.json",
                "/h/.codeium/windsurf/mcp_config.json",
                "C:\\U\\.codeium\\windsurf\\mcp_config.json",
            ),
            (
                Host::Zed,
                "/h/.config/zed/settings.json",
                "/h/.config/zed/settings.json",
                "C:\\A\\Zed\\settings.json",
            ),
            (
                Host::Codex,
                "/h/.codex/config.toml",
                "/h/.codex/config.toml",
                "C:\\U\\.codex\\config.toml",
            ),
            (
                Host::GeminiCli,
                "/h/.gemini/settings.json",
                "/h/.gemini/settings.json",
                "C:\\U\\.gemini\\settings.json",
            ),
            (
                Host::Goose,
                "/h/.config/goose/config.yaml",
                "/h/.config/goose/config.yaml",
                "C:\\A\\Block\\goose\\config\\config.yaml",
            ),
            (
                Host::OpenCode,
                "/h/.config/opencode/opencode.json",
                "/h/.config/opencode/opencode.json",
                "C:\\U\\.config\\opencode\\opencode.json",
            ),
        ] {
            assert_eq!(file(host, Platform::Linux, &unix), linux);
            assert_eq!(file(host, Platform::MacOs, &unix), mac);
            assert_eq!(file(host, Platform::Windows, &windows), win);
            assert_eq!(Host::named(host.name()), Some(host));
            assert_eq!(file(host, Platform::Linux, &[]), "", "{host:?}");
        }
    }

    #[test]
    fn variables_of_the_hosts_move_their_files() {
        for (host, variable, expected) in [
            (Host::ClaudeCode, "CLAUDE_CONFIG_DIR", "/v/.claude.json"),
            (Host::Codex, "CODEX_HOME", "/v/config.toml"),
            (
                Host::GeminiCli,
                "GEMINI_CLI_HOME",
                "/v/.gemini/settings.json",
            ),
            (Host::Goose, "GOOSE_PATH_ROOT", "/v/config/config.yaml"),
            (Host::OpenCode, "OPENCODE_CONFIG", "/v"),
            (Host::Zed, "XDG_CONFIG_HOME", "/v/zed/settings.json"),
            (
                Host::ClaudeDesktop,
                "XDG_CONFIG_HOME",
                "/v/Claude/claude_desktop_config.json",
            ),
        ] {
            assert_eq!(
                file(host, Platform::Linux, &[("HOME", "/h"), (variable, "/v/")])
                    .trim_end_matches('/'),
                expected
            );
        }
    }
}
