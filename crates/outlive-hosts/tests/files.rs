//! One file of each host, as people have them: wrapped, unwrapped and read.

use std::path::Path;

use outlive_hosts::{
    Action, Edited, Format, Host, HostFile, Launch, Shape, Wrapping, masked, read, unwrap, wrap,
};

const PROGRAM: &str = "/o/outlive";

const FILES: [(Host, &str, &str); 10] = [
    (
        Host::ClaudeDesktop,
        "claude_desktop_config.json",
        include_str!("hosts/claude_desktop_config.json"),
    ),
    (
        Host::ClaudeCode,
        "claude.json",
        include_str!("hosts/claude.json"),
    ),
    (
        Host::Cursor,
        "cursor_mcp.json",
        include_str!("hosts/cursor_mcp.json"),
    ),
    (
        Host::VsCode,
        "vscode_mcp.json",
        include_str!("hosts/vscode_mcp.json"),
    ),
    (
        Host::Windsurf,
        "windsurf_mcp_config.json",
        include_str!("hosts/windsurf_mcp_config.json"),
    ),
    (
        Host::Zed,
        "zed_settings.json",
        include_str!("hosts/zed_settings.json"),
    ),
    (
        Host::Codex,
        "codex_config.toml",
        include_str!("hosts/codex_config.toml"),
    ),
    (
        Host::GeminiCli,
        "gemini_settings.json",
        include_str!("hosts/gemini_settings.json"),
    ),
    (
        Host::Goose,
        "goose_config.yaml",
        include_str!("hosts/goose_config.yaml"),
    ),
    (
        Host::OpenCode,
        "opencode.jsonc",
        include_str!("hosts/opencode.jsonc"),
    ),
];

fn wrapped(host: Host, name: &str, text: &str, addresses: bool) -> Edited {
    let wrapping = Wrapping {
        program: PROGRAM,
        addresses,
    };
    wrap(text, Format::of(Path::new(name)), host.shape(), wrapping).expect(name)
}

fn text_of(host: Host) -> (&'static str, &'static str) {
    let (_, name, text) = FILES.iter().find(|(it, ..)| *it == host).expect("a file");
    (name, text)
}

/// The lines that are in one text only: those that went, those that came.
fn changed<'a>(old: &'a str, new: &'a str) -> (Vec<&'a str>, Vec<&'a str>) {
    let gone = old
        .lines()
        .filter(|line| !new.lines().any(|other| other == *line));
    let came = new
        .lines()
        .filter(|line| !old.lines().any(|other| other == *line));
    (gone.collect(), came.collect())
}

/// What a file says, where even the host's own variables have values.
fn everything(text: &str, name: &str) -> HostFile {
    let text = text
        .replace("${workspaceFolder}", "${env:W}")
        .replace("${input:", "${env:");
    let value = |name: &str| Some(format!("<{name}>"));
    read(&text, Format::of(Path::new(name)), value).expect(name)
}

#[test]
fn wrapping_twice_is_wrapping_once() {
    for (host, name, text) in FILES {
        for addresses in [false, true] {
            let once = wrapped(host, name, text, addresses);
            assert_ne!(once.text, text, "{name}");
            let twice = wrapped(host, name, &once.text, addresses);
            assert_eq!(twice.text, once.text, "{name}");
            let again = |touched: &outlive_hosts::Touched| touched.action == Action::Wrapped;
            assert!(
                !twice.servers.iter().any(again),
                "{name}: {:?}",
                twice.servers
            );
        }
    }
}

#[test]
fn unwrapping_restores_every_byte() {
    for (host, name, text) in FILES {
        for addresses in [false, true] {
            for newline in ["\n", "\r\n"] {
                let text = text.replace('\n', newline);
                let wrapped = wrapped(host, name, &text, addresses);
                let format = Format::of(Path::new(name));
                let restored = unwrap(
                    &wrapped.text,
                    format,
                    host.shape(),
                    std::slice::from_ref(&text),
                )
                .expect(name);
                assert_eq!(restored.text, text, "{name}");
                let unwrapped = restored
                    .servers
                    .iter()
                    .filter(|it| it.action == Action::Unwrapped);
                let were = wrapped
                    .servers
                    .iter()
                    .filter(|it| it.action == Action::Wrapped);
                assert_eq!(unwrapped.count(), were.count(), "{name}");
            }
        }
    }
}

#[test]
fn what_was_changed_since_stays_and_the_rest_is_restored() {
    for (host, name, text) in FILES {
        let edited = wrapped(host, name, text, false)
            .text
            .replace("server-", "other-")
            .replace("auto", "chat");
        let expected = text.replace("server-", "other-").replace("auto", "chat");
        let format = Format::of(Path::new(name));
        let restored = unwrap(&edited, format, host.shape(), &[text.to_owned()]).expect(name);
        let (left, right) = (
            everything(&restored.text, name),
            everything(&expected, name),
        );
        if host != Host::Codex {
            assert_eq!(
                restored.text.len(),
                expected.len(),
                "{name}\n{}",
                restored.text
            );
            assert_eq!(restored.text, expected, "{name}");
        }
        for (left, right) in left.servers.iter().zip(&right.servers) {
            if !restored
                .servers
                .iter()
                .any(|it| it.name == left.name && matches!(it.action, Action::Left(_)))
            {
                assert_eq!(left.launch, right.launch, "{name}");
            }
        }
    }
}

#[test]
fn without_a_backup_commands_are_still_restored() {
    for (host, name, text) in FILES {
        let format = Format::of(Path::new(name));
        let wrapped = wrapped(host, name, text, false);
        let restored = unwrap(&wrapped.text, format, host.shape(), &[]).expect(name);
        let (now, before) = (everything(&restored.text, name), everything(text, name));
        for (now, before) in now.servers.iter().zip(&before.servers) {
            if matches!(before.launch, Ok(Launch::Command { .. })) {
                assert_eq!(now.launch, before.launch, "{name}");
            }
        }
    }
}

/// What a wrapped server is started with is what the server was started with, behind `outlive run --`.
#[test]
fn a_wrapped_server_is_the_same_server() {
    for (host, name, text) in FILES {
        let wrapped = wrapped(host, name, text, true);
        let (before, after) = (everything(text, name), everything(&wrapped.text, name));
        assert_eq!(before.servers.len(), after.servers.len(), "{name}");
        for (before, after) in before.servers.iter().zip(&after.servers) {
            assert_eq!(before.enabled, after.enabled, "{name}");
            let touched = wrapped
                .servers
                .iter()
                .find(|it| it.name == before.name)
                .expect("touched");
            if touched.action != Action::Wrapped {
                assert_eq!(before.launch, after.launch, "{name}");
                continue;
            }
            let Ok(Launch::Command {
                program,
                args,
                env,
                cwd,
            }) = &after.launch
            else {
                panic!("{name}: {:?}", after.launch)
            };
            assert_eq!(program, PROGRAM);
            assert_eq!(args[0], "run");
            match before.launch.as_ref().expect("a server") {
                Launch::Command {
                    program,
                    args: own,
                    env: variables,
                    cwd: directory,
                } => {
                    assert_eq!(args[1], "--");
                    assert_eq!(args[2], *program);
                    assert_eq!(&args[3..], own);
                    assert_eq!((env, cwd), (variables, directory), "{name}");
                }
                Launch::Address { url, headers, .. } => {
                    assert_eq!(args.last(), Some(url));
                    assert!(
                        !args
                            .iter()
                            .any(|arg| headers.iter().any(|(_, it)| arg.contains(it.expose())))
                    );
                    let lines = env.first().map_or("", |(_, lines)| lines.expose());
                    assert_eq!(lines.lines().count(), headers.len(), "{name}");
                    for (line, (name, value)) in lines.lines().zip(headers) {
                        let expected = match value.expose() {
                            "Bearer <FIGMA_TOKEN>" => {
                                "Authorization: Bearer <FIGMA_TOKEN>".to_owned()
                            }
                            value => format!("{name}: {value}"),
                        };
                        assert_eq!(line, expected);
                    }
                }
            }
        }
    }
}

#[test]
fn only_lines_of_commands_change() {
    for (host, gone, came) in [
        (
            Host::ClaudeDesktop,
            vec![
                r#"            "command": "npx","#,
                r#"        "notes": { "command": "/opt/notes/bin/notes-mcp" },"#,
                r#"        "empty":{"command":"x","args":[],"env":{"KEY":"hunter2"}}"#,
            ],
            vec![
                r#"            "command": "/o/outlive","#,
                r#"                "run","#,
                r#"                "--","#,
                r#"                "npx","#,
                r#"        "notes": { "command": "/o/outlive", "args": ["run", "--", "/opt/notes/bin/notes-mcp"] },"#,
                r#"        "empty":{"command":"/o/outlive","args":["run", "--", "x"],"env":{"KEY":"hunter2"}}"#,
            ],
        ),
        (
            Host::Cursor,
            vec![
                r#"      "url": "https://api.githubcopilot.com/mcp/", // the remote one"#,
                r#"      "headers": {"#,
                r#"        "Authorization": "Bearer ${env:GITHUB_TOKEN}", /* from the keychain */"#,
                r#"        "X-Team": "core","#,
                r#"      },"#,
                concat!(
                    "\t\"git\": { \"command\": \"uvx\" /* pinned */ , \"args\": [\"mcp-server-git\",",
                    " \"${workspaceFolder}\"], },"
                ),
                r#"    "dev": { "url": "http://localhost:3000/sse", "type": "sse" },"#,
            ],
            vec![
                r#"      "command": "/o/outlive","#,
                r#"      "args": ["run", "https://api.githubcopilot.com/mcp/"], // the remote one"#,
                r#"      "env": { "OUTLIVE_HEADER": "Authorization: Bearer ${env:GITHUB_TOKEN}\nX-Team: core" },"#,
                concat!(
                    "\t\"git\": { \"command\": \"/o/outlive\" /* pinned */ , \"args\": [\"run\",",
                    " \"--\", \"uvx\", \"mcp-server-git\", \"${workspaceFolder}\"], },"
                ),
                concat!(
                    r#"    "dev": { "command": "/o/outlive", "args": ["run", "--transport", "sse","#,
                    r#" "http://localhost:3000/sse"], "type": "stdio" },"#
                ),
            ],
        ),
        (
            Host::Codex,
            vec![
                "command = \"npx\"      # through npm",
                "args = [\"-y\", \"docs-mcp\"]",
                "command = '/opt/my server/bin'",
                "url = \"https://mcp.figma.com/mcp\"",
                "bearer_token_env_var = \"FIGMA_TOKEN\"",
                "inline = { command = \"a\", args = [",
                "bare = { url = \"http://127.0.0.1:9000/mcp\", http_headers = { X-Key = \"k\" } }",
            ],
            vec![
                "command = \"/o/outlive\"      # through npm",
                "args = [\"run\", \"--\", \"npx\", \"-y\", \"docs-mcp\"]",
                "command = \"/o/outlive\"",
                "args = [\"run\", \"--\", '/opt/my server/bin']",
                "command = \"/o/outlive\"",
                "args = [\"run\", \"https://mcp.figma.com/mcp\"]",
                "env_vars = [\"FIGMA_TOKEN\"]",
                "env = { OUTLIVE_HEADER = \"Authorization: Bearer ${FIGMA_TOKEN}\" }",
                "inline = { command = \"/o/outlive\", args = [",
                "  \"run\",",
                "  \"--\",",
                "  \"a\",",
                concat!(
                    "bare = { command = \"/o/outlive\", args = [\"run\",",
                    " \"http://127.0.0.1:9000/mcp\"], env = { OUTLIVE_HEADER = \"X-Key: k\" } }"
                ),
            ],
        ),
        (
            Host::Goose,
            vec![
                "    cmd: uvx      # from PyPI",
                "    cmd: \"npx\"",
                "    args: [-y, '@modelcontextprotocol/server-memory']",
                "    cmd: server",
                "    type: streamable_http",
                "    uri: https://example.com/mcp",
                "    headers:",
                "      Authorization: Bearer hunter2",
            ],
            vec![
                "    cmd: /o/outlive      # from PyPI",
                "    - run",
                "    - \"--\"",
                "    - uvx",
                "    cmd: /o/outlive",
                "    args: [run, \"--\", \"npx\", -y, '@modelcontextprotocol/server-memory']",
                "    cmd: /o/outlive",
                "    args: [run, \"--\", server]",
                "    cmd: /o/outlive",
                "    args: [run, https://example.com/mcp]",
                "    envs: { OUTLIVE_HEADER: \"Authorization: Bearer hunter2\" }",
            ],
        ),
        (
            Host::OpenCode,
            vec![
                r#"        "npx", "-y","#,
                r#"      "type": "remote","#,
                r#"      "url": "https://mcp.context7.com/mcp","#,
                r#"      "headers": { "CONTEXT7_API_KEY": "{env:CONTEXT7_API_KEY}" }"#,
            ],
            vec![
                r#"        "/o/outlive","#,
                r#"        "run","#,
                r#"        "--","#,
                r#"        "npx", "-y","#,
                r#"      "command": ["/o/outlive", "run", "https://mcp.context7.com/mcp"],"#,
                r#"      "environment": { "OUTLIVE_HEADER": "CONTEXT7_API_KEY: {env:CONTEXT7_API_KEY}" }"#,
            ],
        ),
    ] {
        let (name, text) = text_of(host);
        let wrapped = wrapped(host, name, text, false).text;
        let (went, now) = changed(text, &wrapped);
        let still = |line: &&str| !came.contains(line);
        assert_eq!(
            went,
            gone.iter().copied().filter(still).collect::<Vec<_>>(),
            "{name}\n{wrapped}"
        );
        let new = |line: &&str| !gone.contains(line);
        let came: Vec<&str> = came.iter().copied().filter(new).collect();
        assert_eq!(
            now.iter().filter(|line| !came.contains(line)).count(),
            0,
            "{name}\n{wrapped}"
        );
        assert_eq!(
            came.iter()
                .filter(|line| !now.contains(line))
                .collect::<Vec<_>>(),
            Vec::<&&str>::new(),
            "{name}\n{wrapped}"
        );
    }
}

#[test]
fn what_cannot_be_wrapped_is_left_with_a_reason() {
    let why = |host: Host, server: &str| {
        let (name, text) = text_of(host);
        let edited = wrapped(host, name, text, false);
        let touched = edited
            .servers
            .into_iter()
            .find(|it| it.name == server)
            .expect("a server");
        match touched.action {
            Action::Left(why) => why,
            other => panic!("{server}: {other:?}"),
        }
    };
    assert!(why(Host::ClaudeCode, "linear").contains("--addresses"));
    assert!(why(Host::Codex, "login").contains("log in"));
    assert!(why(Host::Zed, "mcp-server-context7").contains("from elsewhere"));
    assert!(why(Host::Goose, "developer").contains("built into the host"));
    assert!(why(Host::OpenCode, "jira").contains("neither a command nor an address"));
    for (entry, word) in [
        (r#""url": "https://h/mcp?key=hunter2""#, "may hold a secret"),
        (r#""url": "https://ann:hunter2@h/mcp""#, "may hold a secret"),
        (
            r#""url": "https://h/s/ZDQ1hunter2hunter2hunter2/mcp""#,
            "may hold a secret",
        ),
        (
            r#""url": "https://h/mcp", "headers": {"A": "b"}, "oauth": {}"#,
            "logs in",
        ),
        (
            r#""url": "https://h/mcp", "headers": {"A": "b"}, "env": {}"#,
            "an address and env",
        ),
        (
            r#""url": "https://h/mcp", "headers": {"A": "hunter2\nB: c"}"#,
            "line break",
        ),
        (
            r#""url": "ws://h/mcp", "headers": {"A": "b"}"#,
            "neither http://",
        ),
        (r#""command": "x", "args": null"#, "write []"),
        (r#""command": "npx -y hunter2""#, "several words"),
    ] {
        let text = format!(r#"{{"mcpServers": {{"s": {{{entry}}}}}}}"#);
        let edited = wrapped(Host::Cursor, "mcp.json", &text, true);
        assert_eq!(edited.text, text);
        let Action::Left(why) = &edited.servers[0].action else {
            panic!("{entry}: {:?}", edited.servers)
        };
        assert!(why.contains(word), "{entry}: {why}");
        assert!(!why.contains("hunter2"), "{why}");
    }
}

#[test]
fn projects_of_claude_code_are_wrapped_but_not_read() {
    let (name, text) = text_of(Host::ClaudeCode);
    let edited = wrapped(Host::ClaudeCode, name, text, false);
    let db = edited
        .servers
        .iter()
        .find(|it| it.name == "db")
        .expect("db");
    assert_eq!(db.action, Action::Wrapped);
    assert_eq!(db.project.as_deref(), Some("/home/ann/site"));
    assert!(edited.text.contains(r#"{\"command\": \"not one\"}"#));
    let names: Vec<String> = everything(text, name)
        .servers
        .into_iter()
        .map(|it| it.name)
        .collect();
    assert_eq!(names, ["time", "linear"]);
}

#[test]
fn settings_that_a_person_added_go_with_outlive() {
    let text = r#"{"mcpServers": {"a": {"command": "outlive", "args": ["run", "--hold", "9s", "--", "npx", "x"]}}}"#;
    let edited = unwrap(text, Format::Json, Shape::McpServers, &[]).expect("a file");
    assert_eq!(
        edited.text,
        r#"{"mcpServers": {"a": {"command": "npx", "args": ["x"]}}}"#
    );
    let text = r#"{"mcpServers": {"a": {"command": "outlive", "args": ["run", "https://h/mcp"]}}}"#;
    let edited = unwrap(text, Format::Json, Shape::McpServers, &[]).expect("a file");
    assert_eq!(edited.text, text);
    assert!(matches!(&edited.servers[0].action, Action::Left(why) if why.contains("no backup")));
}

#[test]
fn dashes_of_the_server_are_the_servers() {
    for args in [
        r#"["run", "npm", "run", "start", "--", "--port", "3"]"#,
        r#"["run", "--hold", "9s", "uvx", "x", "--", "y"]"#,
        r#"["run", "--no-keep-logs", "npm", "--", "y"]"#,
    ] {
        let text =
            format!(r#"{{"mcpServers": {{"a": {{"command": "outlive", "args": {args}}}}}}}"#);
        let edited = unwrap(&text, Format::Json, Shape::McpServers, &[]).expect("a file");
        assert_eq!(edited.text, text);
        assert!(matches!(&edited.servers[0].action, Action::Left(_)));
    }
    let text = r#"{"mcp": {"a": {"type": "local", "command": ["outlive", "run", "--hold=9s", "--", "npx", "--", "x"]}}}"#;
    let edited = unwrap(text, Format::Json, Shape::Mcp, &[]).expect("a file");
    assert_eq!(
        edited.text,
        r#"{"mcp": {"a": {"type": "local", "command": ["npx", "--", "x"]}}}"#
    );
}

#[test]
fn an_entry_that_takes_keys_from_elsewhere_is_left() {
    let text = "base: &base\n  args: [x.js]\nextensions:\n  d:\n    <<: *base\n    type: stdio\n    cmd: node\n";
    let wrapping = Wrapping {
        program: "outlive",
        addresses: false,
    };
    let edited = wrap(text, Format::Yaml, Shape::Extensions, wrapping).expect("a file");
    assert_eq!(edited.text, text);
    assert!(matches!(&edited.servers[0].action, Action::Left(why) if why.contains("<<")));
}

#[test]
fn what_is_shown_of_a_file_holds_no_secret() {
    for (host, name, text) in FILES {
        let format = Format::of(Path::new(name));
        for text in [text, &wrapped(host, name, text, true).text] {
            let shown = masked(text, format, host.shape()).expect(name);
            assert!(
                !shown.contains("hunter2") && !shown.contains("Bearer"),
                "{shown}"
            );
            let of_no_server = [
                "Ctrl+Space",
                "One Dark",
                "gpt-5",
                "anthropic",
                "promptString",
                "not one",
            ];
            assert!(!of_no_server.iter().any(|it| shown.contains(it)), "{shown}");
            assert_eq!(shown.lines().count(), text.lines().count(), "{name}");
            assert_eq!(
                everything(&shown, name).servers.len(),
                everything(text, name).servers.len()
            );
        }
    }
}
