//! Files of hosts with a piece missing, doubled or put elsewhere: what is edited at all is edited rightly.

use std::path::Path;

use outlive_hosts::{
    Action, Error, Format, Host, HostFile, Launch, Shape, Wrapping, read, unwrap, wrap,
};
use proptest::prelude::*;

const FILES: [(Host, &str, &str); 5] = [
    (
        Host::Cursor,
        "mcp.json",
        include_str!("hosts/cursor_mcp.json"),
    ),
    (
        Host::Zed,
        "settings.json",
        include_str!("hosts/zed_settings.json"),
    ),
    (
        Host::Codex,
        "config.toml",
        include_str!("hosts/codex_config.toml"),
    ),
    (
        Host::Goose,
        "config.yaml",
        include_str!("hosts/goose_config.yaml"),
    ),
    (
        Host::OpenCode,
        "opencode.jsonc",
        include_str!("hosts/opencode.jsonc"),
    ),
];

const WRAPPING: Wrapping<'_> = Wrapping {
    program: "/o/outlive",
    addresses: true,
};

/// The text with a piece of it cut out, and perhaps put in elsewhere.
fn damaged(text: &str, cut: (usize, usize), elsewhere: Option<usize>) -> String {
    let characters: Vec<char> = text.chars().collect();
    let start = cut.0 % characters.len();
    let end = (start + cut.1).min(characters.len());
    let piece = &characters[start..end];
    let mut rest: Vec<char> = [&characters[..start], &characters[end..]].concat();
    if let Some(place) = elsewhere {
        let place = place % (rest.len() + 1);
        rest.splice(place..place, piece.iter().copied());
    }
    rest.into_iter().collect()
}

/// What a file says, if it is still one of this shape.
fn everything(text: &str, format: Format, shape: Shape) -> Option<HostFile> {
    let text = text.replace("${workspaceFolder}", "${env:W}");
    let file = read(&text, format, |name| Some(name.to_owned())).ok()?;
    (file.shape == shape).then_some(file)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_edited_is_edited_rightly(
        file in 0..FILES.len(),
        start in any::<usize>(),
        length in 1..60usize,
        elsewhere in prop::option::of(any::<usize>()),
    ) {
        let (host, name, text) = FILES[file];
        let format = Format::of(Path::new(name));
        let text = damaged(text, (start, length), elsewhere);
        let Ok(edited) = wrap(&text, format, host.shape(), WRAPPING) else {
            return Ok(());
        };
        let again = wrap(&edited.text, format, host.shape(), WRAPPING);
        prop_assert_eq!(&again.expect("what was wrapped").text, &edited.text);

        let was_bare = edited.servers.iter().all(|it| it.action != Action::Unchanged);
        let backup = std::slice::from_ref(&text);
        let restored = unwrap(&edited.text, format, host.shape(), backup).expect("what was wrapped");
        if was_bare {
            prop_assert_eq!(&restored.text, &text);
        }

        let bare = unwrap(&edited.text, format, host.shape(), &[]).expect("what was wrapped");
        let (Some(before), Some(wrapped), Some(after)) =
            (everything(&text, format, host.shape()), everything(&edited.text, format, host.shape()), everything(&bare.text, format, host.shape()))
        else {
            return Ok(());
        };
        prop_assert_eq!(before.servers.len(), wrapped.servers.len());
        for ((before, wrapped), after) in before.servers.iter().zip(&wrapped.servers).zip(&after.servers) {
            let Some(touched) = edited.servers.iter().find(|it| it.name == before.name) else { continue };
            if touched.action != Action::Wrapped {
                // An error stands on another line now.
                let said = |launch: &Result<Launch, Error>| launch.clone().map_err(|it| it.why().to_owned());
                prop_assert_eq!(said(&before.launch), said(&wrapped.launch));
                continue;
            }
            if let (Ok(Launch::Command { program, args, env, cwd }), Ok(now)) = (&before.launch, &wrapped.launch) {
                let mut behind = vec!["run".to_owned(), "--".to_owned(), program.clone()];
                behind.extend_from_slice(args);
                let expected = Launch::Command {
                    program: WRAPPING.program.to_owned(),
                    args: behind,
                    env: env.clone(),
                    cwd: cwd.clone(),
                };
                prop_assert_eq!(now, &expected);
                prop_assert_eq!(&after.launch, &before.launch);
            } else {
                prop_assert_eq!(before.launch.is_ok(), wrapped.launch.is_ok(), "{}\n{:?}", edited.text, wrapped.launch);
            }
        }
    }
}
