//! Random files: whatever stands around the servers, wrapping and unwrapping leaves it as it was.

use outlive_hosts::{Action, Format, Shape, Wrapping, read, unwrap, wrap};
use proptest::prelude::*;

const WRAPPING: Wrapping<'_> = Wrapping {
    program: "/opt/outlive",
    addresses: true,
};

/// What may stand between two tokens of JSON with comments.
fn space() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => Just(String::new()),
        4 => Just(" ".to_owned()),
        2 => Just("\n    ".to_owned()),
        1 => Just("\r\n\t".to_owned()),
        1 => Just(" // \"command\": \"no\", {\n".to_owned()),
        1 => Just("/* } ] \u{e4} */".to_owned()),
    ]
}

fn string() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z@/.-]{1,8}",
        Just("--".to_owned()),
        Just("run".to_owned()),
        Just("outlive".to_owned()),
        any::<String>(),
    ]
    .prop_map(|text| serde_json::Value::from(text).to_string())
}

fn list() -> impl Strategy<Value = String> {
    let items = prop::collection::vec((space(), string(), space()), 0..4);
    (items, space(), any::<bool>()).prop_map(|(items, end, trailing)| {
        let items: Vec<String> = items
            .iter()
            .map(|(a, it, b)| format!("{a}{it}{b}"))
            .collect();
        let comma = if trailing && !items.is_empty() {
            ","
        } else {
            ""
        };
        format!("[{}{comma}{end}]", items.join(","))
    })
}

fn scalar() -> impl Strategy<Value = String> {
    prop_oneof![
        string(),
        list(),
        Just("{}".to_owned()),
        Just("-1.5e3".to_owned()),
        Just("null".to_owned())
    ]
}

/// A table of pairs with spaces around every token.
fn table(pairs: Vec<(String, String)>) -> impl Strategy<Value = String> {
    let count = pairs.len();
    let spaces = prop::collection::vec((space(), space(), space(), space()), count);
    (Just(pairs).prop_shuffle(), spaces, any::<bool>(), space()).prop_map(
        |(pairs, spaces, trailing, end)| {
            let pairs: Vec<String> = pairs
                .iter()
                .zip(&spaces)
                .map(|((key, value), (a, b, c, d))| format!("{a}\"{key}\"{b}:{c}{value}{d}"))
                .collect();
            let comma = if trailing && !pairs.is_empty() {
                ","
            } else {
                ""
            };
            format!("{{{}{comma}{end}}}", pairs.join(","))
        },
    )
}

fn server() -> impl Strategy<Value = String> {
    let other = || prop::option::of(scalar());
    let command =
        (string(), prop::option::of(list()), other()).prop_flat_map(|(command, args, other)| {
            let mut pairs = vec![("command".to_owned(), command)];
            pairs.extend(args.map(|args| ("args".to_owned(), args)));
            pairs.extend(other.map(|other| ("other".to_owned(), other)));
            table(pairs)
        });
    let header = ("[A-Z][a-z]{0,3}", string());
    let address =
        (prop::option::of(header), prop::bool::ANY, other()).prop_flat_map(
            |(header, sse, other)| {
                let mut pairs = vec![("url".to_owned(), r#""https:\/\/h\u002fmcp""#.to_owned())];
                pairs.extend(header.map(|(name, value)| {
                    ("headers".to_owned(), format!("{{ \"{name}\":{value} }}"))
                }));
                pairs.extend(sse.then(|| ("type".to_owned(), "\"sse\"".to_owned())));
                pairs.extend(other.map(|other| ("other".to_owned(), other)));
                table(pairs)
            },
        );
    prop_oneof![command, address]
}

fn file() -> impl Strategy<Value = String> {
    (prop::collection::vec(server(), 0..4), scalar())
        .prop_flat_map(|(servers, other)| {
            let servers = servers.into_iter().enumerate();
            let named = servers
                .map(|(place, server)| (format!("s{place}"), server))
                .collect();
            (table(named), Just(other))
        })
        .prop_flat_map(|(servers, other)| {
            table(vec![
                ("mcpServers".to_owned(), servers),
                ("other".to_owned(), other),
            ])
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn wrapping_and_unwrapping_is_nothing(text in file()) {
        let edited = wrap(&text, Format::Json, Shape::McpServers, WRAPPING).expect("a file");
        let again = wrap(&edited.text, Format::Json, Shape::McpServers, WRAPPING).expect("a file");
        prop_assert_eq!(&again.text, &edited.text);

        let was_bare = edited.servers.iter().all(|it| it.action != Action::Unchanged);
        let backup = [text.clone()];
        let restored = unwrap(&edited.text, Format::Json, Shape::McpServers, &backup).expect("a file");
        if was_bare {
            prop_assert_eq!(&restored.text, &text);
        }

        // Without the backup a command is what it was, if not as it was written.
        let restored = unwrap(&edited.text, Format::Json, Shape::McpServers, &[]).expect("a file");
        let value = |_: &str| Some(String::new());
        let (now, before) = (
            read(&restored.text, Format::Json, value).expect("a file"),
            read(&text, Format::Json, value).expect("a file"),
        );
        for (now, before) in now.servers.iter().zip(&before.servers) {
            let edit = edited.servers.iter().find(|it| it.name == now.name).expect("the server");
            let is_command = matches!(before.launch, Ok(outlive_hosts::Launch::Command { .. }));
            if is_command && edit.action == Action::Wrapped {
                prop_assert_eq!(&now.launch, &before.launch);
            }
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in r#"[\[\]{}:,"a \n#'&*!|>-]{0,40}"#) {
        for (format, shape) in [
            (Format::Json, Shape::McpServers),
            (Format::Toml, Shape::Codex),
            (Format::Yaml, Shape::Extensions),
        ] {
            for text in [text.clone(), format!("extensions:\n  a: {text}"), format!("[mcp_servers.a]\n{text}")] {
                let _ = read(&text, format, |_| None);
                let _ = wrap(&text, format, shape, WRAPPING);
                let _ = unwrap(&text, format, shape, &[]);
            }
        }
    }
}
