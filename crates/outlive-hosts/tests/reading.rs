//! What is read from a file, and what is said about one that cannot be read.

use outlive_hosts::{
    Format, HostFile, Launch, MAX_SERVERS, Shape, Transport, Wrapping, load, read, wrap,
};

fn value(name: &str) -> Option<String> {
    match name {
        "TOKEN" => Some("hunter2".into()),
        "HOME" => Some("/home/ann".into()),
        _ => None,
    }
}

fn file(text: &str, format: Format) -> HostFile {
    read(text, format, value).expect("a file")
}

fn command(file: &HostFile, place: usize) -> (&str, Vec<&str>) {
    match file.servers[place].launch.as_ref().expect("a server") {
        Launch::Command { program, args, .. } => {
            (program, args.iter().map(String::as_str).collect())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_shape_is_known_by_its_key() {
    for (text, format, shape) in [
        (
            r#"{"mcpServers": {"a": {"command": "x"}}}"#,
            Format::Json,
            Shape::McpServers,
        ),
        (
            r#"{"servers": {"a": {"command": "x"}}}"#,
            Format::Json,
            Shape::Servers,
        ),
        (
            r#"{"context_servers": {"a": {"command": "x"}}}"#,
            Format::Json,
            Shape::ContextServers,
        ),
        (
            r#"{"mcp": {"a": {"type": "local", "command": ["x"]}}}"#,
            Format::Json,
            Shape::Mcp,
        ),
        (
            r#"{"mcp": {"servers": {"a": {"command": "x"}}}}"#,
            Format::Json,
            Shape::Mcp,
        ),
        ("mcp_servers.a.command = 'x'", Format::Toml, Shape::Codex),
        ("[servers.a]\ncommand = ['x']", Format::Toml, Shape::Ours),
        (
            "extensions:\n  a: {type: stdio, cmd: x}",
            Format::Yaml,
            Shape::Extensions,
        ),
    ] {
        let file = file(text, format);
        assert_eq!(file.shape, shape, "{text}");
        assert_eq!(file.servers[0].name, "a");
        assert_eq!(command(&file, 0), ("x", vec![]), "{text}");
        assert_eq!(Shape::of(text, format), Ok(shape));
    }
}

#[test]
fn addresses_have_their_headers_and_their_transport() {
    for (entry, transport) in [
        (
            r#""url": "https://h/mcp", "type": "http""#,
            Some(Transport::Streamable),
        ),
        (
            r#""url": "https://h/mcp", "type": "streamable-http""#,
            Some(Transport::Streamable),
        ),
        (
            r#""url": "https://h/mcp", "type": "sse""#,
            Some(Transport::Sse),
        ),
        (r#""serverUrl": "https://h/mcp""#, None),
        (r#""httpUrl": "https://h/mcp""#, None),
    ] {
        let text = format!(
            r#"{{"mcpServers": {{"a": {{{entry}, "headers": {{"X": "Bearer ${{TOKEN}}"}}}}}}}}"#
        );
        let file = file(&text, Format::Json);
        let Ok(Launch::Address {
            url,
            headers,
            transport: named,
        }) = &file.servers[0].launch
        else {
            panic!("{entry}: {file:?}")
        };
        assert_eq!(
            (url.as_str(), *named),
            ("https://h/mcp", transport),
            "{entry}"
        );
        assert_eq!(headers[0].0, "X");
        assert_eq!(headers[0].1.expose(), "Bearer hunter2");
        assert!(!format!("{file:?}").contains("hunter2"));
    }
    let codex = "[mcp_servers.a]\nurl = 'https://h/mcp'\n\
        bearer_token_env_var = 'TOKEN'\nenv_http_headers = { X = 'HOME' }";
    let file = file(codex, Format::Toml);
    let Ok(Launch::Address { headers, .. }) = &file.servers[0].launch else {
        panic!("{file:?}")
    };
    let headers: Vec<(&str, &str)> = headers
        .iter()
        .map(|(name, it)| (name.as_str(), it.expose()))
        .collect();
    assert_eq!(
        headers,
        [("X", "/home/ann"), ("Authorization", "Bearer hunter2")]
    );
}

#[test]
fn commands_have_their_variables_and_their_directory() {
    let text = r#"{"mcpServers": {
        "a": {"command": "${HOME}/x", "args": ["${NONE:-y}", 7], "env": {"K": "${TOKEN}", "N": 1},"cwd": "${userHome}"},
        "b": {"command": "x", "disabled": true},
        "c": {"command": "x", "enabled": false, "outlive": {"request-timeout": "60s", "tools": {"deny": ["rm*"]}}},
    }}"#;
    let file = file(text, Format::Json);
    let Ok(Launch::Command {
        program,
        args,
        env,
        cwd,
    }) = &file.servers[0].launch
    else {
        panic!("{file:?}")
    };
    assert_eq!(
        (program.as_str(), args.as_slice()),
        ("/home/ann/x", &["y".to_owned(), "7".to_owned()][..])
    );
    assert_eq!(
        env.iter().map(|(_, it)| it.expose()).collect::<Vec<_>>(),
        ["hunter2", "1"]
    );
    assert_eq!(cwd.as_deref(), Some("/home/ann".as_ref()));
    assert_eq!(
        file.servers.iter().map(|it| it.enabled).collect::<Vec<_>>(),
        [true, false, false]
    );
    let settings = &file.servers[2].settings;
    assert_eq!(settings[0].key, "request-timeout");
    assert_eq!(settings[0].value, "60s");
    assert_eq!(settings[0].at.to_string(), "4:61");
    assert_eq!(settings[1].value["deny"][0], "rm*");
}

#[test]
fn in_our_own_file_settings_stand_beside_the_server() {
    let text = "[servers.gh]\ncommand = ['x', '-y']\nrequest-timeout = '60s'\nprefix = 'gh'\n";
    let file = file(text, Format::Toml);
    assert_eq!(command(&file, 0), ("x", vec!["-y"]));
    let keys: Vec<&str> = file.servers[0]
        .settings
        .iter()
        .map(|it| it.key.as_str())
        .collect();
    assert_eq!(keys, ["request-timeout", "prefix"]);
    assert!(file.unknown.is_empty());
}

#[test]
fn a_key_that_means_nothing_is_named_once() {
    let text = r#"{"mcpServers": {"a": {"command": "x", "trust": true},
 "b": {"command": "x", "trust": 1, "z": 0}}}"#;
    let unknown = file(text, Format::Json).unknown;
    let unknown: Vec<String> = unknown
        .iter()
        .map(|(key, at)| format!("{key} {at}"))
        .collect();
    assert_eq!(unknown, ["trust 1:39", "z 2:36"]);
}

#[test]
fn one_server_that_makes_no_sense_costs_no_other() {
    let text = r#"{"servers": {
        "asks": {"command": "x", "env": {"K": "${input:key}"}},
        "unset": {"command": "${NONE}"},
        "both": {"command": "x", "url": "https://h"},
        "neither": {"type": "stdio"},
        "number": {"command": 7},
        "args": {"command": "x", "args": "-y"},
        "null": null,
        "ftp": {"url": "ftp://h"},
        "nested": {"command": "x", "args": [["y"]]},
        "env": {"command": "x", "env": {"K": ["hunter2"]}},
        "good": {"command": "x"}
    }}"#;
    let file = file(text, Format::Json);
    let whys: Vec<String> = file
        .servers
        .iter()
        .filter_map(|it| it.launch.as_ref().err().map(ToString::to_string))
        .collect();
    for (why, (at, words)) in whys.iter().zip([
        ("2:47: ", "a question that only the editor can ask"),
        ("3:30: ", "the environment variable NONE is not set"),
        ("4:18: ", "has a command and an address"),
        ("5:9: ", "has neither a command nor an address"),
        (
            "6:31: ",
            "command of \"number\" is a number, where a string is wanted",
        ),
        (
            "7:42: ",
            "args of \"args\" is a string, where a list of strings is wanted",
        ),
        ("8:17: ", "is null, where an object is wanted"),
        ("9:24: ", "begins with neither http:// nor https://"),
        ("10:45: ", "a list in the args of \"nested\""),
        ("11:46: ", "K is a list, where a string is wanted"),
    ]) {
        assert!(why.starts_with(at) && why.contains(words), "{why}");
        assert!(!why.contains("hunter2"), "{why}");
    }
    assert_eq!(whys.len(), 10);
    assert!(file.servers[10].launch.is_ok());
}

#[test]
fn a_file_that_cannot_be_read_says_where_and_is_not_edited() {
    let long = "[".repeat(5000);
    let deep = format!("extensions: {long}");
    for (format, text, at, words) in [
        (
            Format::Json,
            "{\n  \"mcpServers\": {\n    \"a\": {\"command\": x}\n  }\n}",
            "3:22",
            "no JSON",
        ),
        (
            Format::Json,
            "{\"mcpServers\": {\"a\": {\"command\": 'x'}}}",
            "1:34",
            "no JSON",
        ),
        (Format::Json, "{\"mcpServers\": {}", "1:1", "no JSON"),
        (Format::Json, "{\"mcpServers\": {}} x", "1:20", "no JSON"),
        (
            Format::Json,
            "{\"mcpServers\": {\"a\": {} \"b\": {}}}",
            "1:24",
            "no JSON",
        ),
        (Format::Json, "", "1:1", "empty"),
        (Format::Json, "// nothing\n", "2:1", "empty"),
        (Format::Json, "[]", "1:1", "the file has no servers"),
        (
            Format::Json,
            "{\"mcpServer\": {}}",
            "1:1",
            "mcpServers, context_servers",
        ),
        (
            Format::Json,
            "{\"mcpServers\": []}",
            "1:16",
            "where an object of servers is wanted",
        ),
        (
            Format::Json,
            "{\"mcpServers\": {\"a\": {},\n \"a\": {}}}",
            "2:2",
            "a second server is called \"a\"",
        ),
        (
            Format::Json,
            "{\"mcpServers\": {\"a\": {\"command\": \"x\"}},\n \"mcpServers\": {}}",
            "2:2",
            "there is a second mcpServers",
        ),
        (
            Format::Json,
            "{\"mcpServers\": {}, \"projects\": {\"/p\": {\"mcpServers\": {},\n\"mcpServers\": {}}}}",
            "2:1",
            "there is a second mcpServers",
        ),
        (Format::Json, &long, "1:513", "nesting"),
        (
            Format::Toml,
            "[mcp_servers.a]\ncommand = npx\n",
            "2:11",
            "no TOML",
        ),
        (
            Format::Toml,
            "[mcp_servers.a]\ncommand = 'x'\n[mcp_servers.a]\n",
            "3:",
            "no TOML",
        ),
        (Format::Toml, "model = 'x'", "1:1", "mcp_servers, servers"),
        (
            Format::Yaml,
            "extensions:\n  a: [x\n  b: }\n",
            "3:",
            "no YAML",
        ),
        (Format::Yaml, "extensions:\n\ta: x\n", "2:", "no YAML"),
        (
            Format::Yaml,
            "extensions: {}\n---\nextensions: {}\n",
            "2:1",
            "a second document",
        ),
        (
            Format::Yaml,
            "extensions: x",
            "1:13",
            "extensions is a string",
        ),
        (Format::Yaml, "", "1:1", "empty"),
        (Format::Yaml, &deep, "1:", ""),
    ] {
        let shown = &text[..text.len().min(60)];
        let error = read(text, format, value).expect_err(shown);
        let told = error.to_string();
        assert!(
            told.starts_with(at) && told.contains(words),
            "{shown:?}: {told}"
        );
        let wrapping = Wrapping {
            program: "outlive",
            addresses: true,
        };
        let shape = match format {
            Format::Json => Shape::McpServers,
            Format::Toml => Shape::Codex,
            Format::Yaml => Shape::Extensions,
        };
        if let Ok(edited) = wrap(text, format, shape, wrapping) {
            assert_eq!(edited.text, text);
            assert!(edited.servers.is_empty());
        }
    }
}

#[test]
fn an_alias_in_a_server_is_refused_and_elsewhere_is_none_of_ours() {
    let text = "base: &b {x: 1}\nextensions:\n  a: {type: stdio, cmd: x}\nother: *b\n";
    assert_eq!(command(&file(text, Format::Yaml), 0), ("x", vec![]));
    let text = "base: &b {x: 1}\nextensions:\n  a: *b\n";
    let why = file(text, Format::Yaml).servers[0]
        .launch
        .as_ref()
        .unwrap_err()
        .to_string();
    assert!(
        why.starts_with("3:6: ") && why.contains("an alias"),
        "{why}"
    );
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_file() {
    let text = "\u{feff}{\"mcpServers\": {\"ä\": {\"command\": 7}}}";
    let why = file(text, Format::Json).servers[0]
        .launch
        .as_ref()
        .unwrap_err()
        .to_string();
    assert!(why.starts_with("1:34: "), "{why}");
}

#[test]
fn too_much_is_refused() {
    let many: Vec<String> = (0..=MAX_SERVERS)
        .map(|n| format!("\"s{n}\": {{\"command\": \"x\"}}"))
        .collect();
    let text = format!("{{\"mcpServers\": {{{}}}}}", many.join(","));
    let why = read(&text, Format::Json, value).unwrap_err().to_string();
    assert!(why.contains("at most 1000"), "{why}");
    let why = read(&" ".repeat((16 << 20) + 1), Format::Json, value)
        .unwrap_err()
        .to_string();
    assert!(why.contains("longer than 16 MiB"), "{why}");
}

#[test]
fn a_file_of_another_encoding_says_where() {
    let directory = std::env::temp_dir().join(format!("outlive-hosts-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("mcp.json");
    std::fs::write(&path, b"{\n  \"a\": \"\xe4\"}").unwrap();
    let why = load(&path).unwrap_err().to_string();
    assert!(
        why.ends_with("mcp.json:2:9: this is no UTF-8: save the file in that encoding"),
        "{why}"
    );
    let why = load(&directory.join("none.json")).unwrap_err().to_string();
    assert!(why.contains("none.json: cannot be read: "), "{why}");
    std::fs::remove_dir_all(&directory).unwrap();
}
