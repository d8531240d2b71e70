use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::super::bus::peer::{Act, serve};
use super::*;

const ITEM_PATH: &str = "/item/1";
const PROMPT_PATH: &str = "/prompt/1";

fn entry() -> Entry {
    Entry {
        name: "0123".into(),
        server: "https://a.example/mcp".into(),
    }
}

fn body(put: impl FnOnce(&mut Body)) -> Body {
    let mut body = Body::default();
    put(&mut body);
    body
}

fn path(path: &'static str) -> Act {
    Act::Return("o", body(|it| it.text(path)))
}

fn paths(signature: &'static str, unlocked: &[&str], rest: impl FnOnce(&mut Body)) -> Act {
    let unlocked: Vec<String> = unlocked.iter().map(|it| (*it).to_owned()).collect();
    Act::Return(
        signature,
        body(|it| {
            it.array(4, |it| unlocked.iter().for_each(|path| it.text(path)));
            rest(it);
        }),
    )
}

fn nothing_found() -> Act {
    paths("aoao", &[], |it| it.array(4, |_| ()))
}

fn property(signature: &'static str, put: impl FnOnce(&mut Body)) -> Act {
    Act::Return("v", body(|it| it.variant(put, signature)))
}

/// What a keyring with one entry, which is locked or not, answers.
fn usual(member: &str, locked: bool) -> Vec<Act> {
    let list = |on: bool| if on { &[ITEM_PATH][..] } else { &[] };
    let act = match member {
        "Hello" => Act::Return("s", body(|it| it.text(":1.5"))),
        "AddMatch" | "Prompt" => Act::Return("", Body::default()),
        "OpenSession" => Act::Return(
            "vo",
            body(|it| {
                it.variant(|it| it.text(""), "s");
                it.text("/session/1");
            }),
        ),
        "SearchItems" => paths("aoao", list(!locked), |it| {
            it.array(4, |it| list(locked).iter().for_each(|path| it.text(path)));
        }),
        "Unlock" => paths("aoo", list(!locked), |it| {
            it.text(if locked { PROMPT_PATH } else { NOTHING });
        }),
        "ReadAlias" => path(ITEM_PATH),
        // Its collections: there are none.
        "Get" => property("ao", |it| it.array(4, |_| ())),
        "CreateItem" => Act::Return(
            "oo",
            body(|it| {
                it.text(ITEM_PATH);
                it.text(NOTHING);
            }),
        ),
        "Delete" => path(NOTHING),
        "GetSecret" => Act::Return(
            "(oayays)",
            body(|it| {
                it.text("/session/1");
                it.bytes(b"");
                it.bytes(b"hunter99");
                it.text("text/plain");
            }),
        ),
        other => panic!("nobody calls {other}"),
    };
    vec![act]
}

/// Opens a keyring that does what `act` says of each call, and of the how-manieth it is.
fn with<T>(
    patience: Duration,
    mut act: impl FnMut(usize, &str) -> Vec<Act> + Send + 'static,
    ask: impl FnOnce(&mut Keyring) -> Result<T, Trouble>,
) -> (Result<T, Trouble>, Vec<String>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let called: Arc<Mutex<Vec<String>>> = Arc::default();
    let calls = called.clone();
    let server = thread::spawn(move || {
        serve(theirs, move |member| {
            let mut calls = calls.lock().unwrap();
            calls.push(member.to_owned());
            act(calls.len(), member)
        });
    });
    let bus = Bus::over(ours, Instant::now() + patience);
    let answer = bus.and_then(Keyring::at).and_then(|mut it| ask(&mut it));
    server.join().unwrap();
    let called = called.lock().unwrap().clone();
    (answer, called)
}

const LONG: Duration = Duration::from_secs(20);

#[test]
fn a_secret_is_kept_read_and_deleted() {
    let plain = |_, member: &str| usual(member, false);
    let (secret, _) = with(LONG, plain, |it| it.get(&entry(), Extent::Everywhere));
    assert_eq!(secret, Ok(Some(b"hunter99".to_vec())));
    let (set, called) = with(LONG, plain, |it| it.set(&entry(), b"x"));
    assert_eq!(set, Ok(()));
    let calls = ["Hello", "OpenSession", "ReadAlias", "Unlock", "CreateItem"];
    assert_eq!(called, calls);
    assert_eq!(with(LONG, plain, |it| it.delete(&entry())).0, Ok(()));
    let none = |_, member: &str| match member {
        "SearchItems" => vec![nothing_found()],
        member => usual(member, false),
    };
    assert_eq!(
        with(LONG, none, |it| it.get(&entry(), Extent::Everywhere)).0,
        Ok(None)
    );
    assert_eq!(with(LONG, none, |it| it.delete(&entry())).0, Ok(()));
}

#[test]
fn a_person_may_unlock_it_or_not() {
    for (dismissed, expected) in [
        (false, Ok(Some(b"hunter99".to_vec()))),
        (true, Err(Trouble::Locked)),
    ] {
        for early in [false, true] {
            let act = move |_, member: &str| {
                let mut acts = usual(member, true);
                if member == "Prompt" {
                    let told = body(|it| {
                        it.flag(dismissed);
                        it.variant(|it| it.text(""), "s");
                    });
                    let signal = Act::Signal(PROMPT_PATH, "Completed", "bv", told);
                    acts.insert(usize::from(!early), signal);
                    let other =
                        Act::Signal("/prompt/2", "Completed", "b", body(|it| it.flag(true)));
                    acts.insert(0, other);
                }
                acts
            };
            assert_eq!(
                with(LONG, act, |it| it.get(&entry(), Extent::Everywhere)).0,
                expected
            );
        }
    }
}

#[test]
fn one_that_stops_at_any_step_is_told_from_one_that_leaves() {
    for step in 1..=4 {
        let stopped = move |after: usize, member: &str| match after < step {
            true => usual(member, false),
            false => vec![Act::Hang],
        };
        let begun = Instant::now();
        let (silent, _) = with(Duration::from_millis(200), stopped, |it| {
            it.get(&entry(), Extent::Everywhere)
        });
        assert_eq!(silent, Err(Trouble::Silent), "{step}");
        assert!(begun.elapsed() < LONG);
        let left = move |after: usize, member: &str| match after < step {
            true => usual(member, false),
            false => vec![Act::Leave],
        };
        let (left, _) = with(LONG, left, |it| it.get(&entry(), Extent::Everywhere));
        assert!(matches!(left, Err(Trouble::Broken(_))), "{step}: {left:?}");
    }
}

#[test]
fn nonsense_at_any_step_is_the_end_of_it_and_nothing_worse() {
    type Nonsense = fn() -> Vec<Act>;
    let kinds: [Nonsense; 6] = [
        || vec![Act::Write(vec![0xff; 64])],
        // A message of four gigabytes.
        || {
            vec![Act::Write(
                b"l\x02\x00\x01\xff\xff\xff\xff\x01\x00\x00\x00\x00\x00\x00\x00".to_vec(),
            )]
        },
        || {
            vec![Act::Write(
                b"l\x02\x00\x01\x00\x00\x00\x00\x01\x00\x00\x00\xff\xff\xff\xff".to_vec(),
            )]
        },
        // Another signature, and bodies that are not what theirs says.
        || vec![Act::Return("u", body(|it| it.flag(true)))],
        || vec![Act::Return("", Body::default())],
        || {
            (0..2000)
                .map(|_| Act::Signal("/x", "y", "s", body(|it| it.text("z"))))
                .collect()
        },
    ];
    for nonsense in kinds {
        for step in 2..=4 {
            let act = move |after: usize, member: &str| match after < step {
                true => usual(member, false),
                false => nonsense().into_iter().chain([Act::Leave]).collect(),
            };
            let (answer, _) = with(LONG, act, |it| it.get(&entry(), Extent::Everywhere));
            assert!(
                matches!(answer, Err(Trouble::Broken(_))),
                "{step}: {answer:?}"
            );
        }
    }
    for signature in ["vo", "aoao", "(oayays)"] {
        let act = move |after: usize, member: &str| match after {
            1 => usual(member, false),
            _ => vec![
                Act::Return(signature, body(|it| it.bytes(&[0xff; 9]))),
                Act::Leave,
            ],
        };
        let (answer, _) = with(LONG, act, |it| it.get(&entry(), Extent::Everywhere));
        assert!(
            matches!(answer, Err(Trouble::Broken(_))),
            "{signature}: {answer:?}"
        );
    }
}

#[test]
fn refusals_mean_what_they_say() {
    for (error, trouble) in [
        (
            "org.freedesktop.DBus.Error.ServiceUnknown",
            Trouble::Absent("no program offers one".into()),
        ),
        (
            "org.freedesktop.DBus.Error.Spawn.ChildExited",
            Trouble::Absent("no program offers one".into()),
        ),
        ("org.freedesktop.DBus.Error.NoReply", Trouble::Silent),
        ("org.freedesktop.Secret.Error.IsLocked", Trouble::Locked),
        ("a.b", Trouble::Broken("a.b".into())),
    ] {
        let act = move |_, member: &str| match member {
            "SearchItems" => vec![Act::Refuse(error)],
            member => usual(member, false),
        };
        assert_eq!(
            with(LONG, act, |it| it.get(&entry(), Extent::Everywhere)).0,
            Err(trouble)
        );
    }
}

/// What KeePassXC does with a database that is locked: it shows nothing of it until it is unlocked, which takes a person.
fn hiding(dismissed: bool, holds: bool) -> impl FnMut(usize, &str) -> Vec<Act> + Send + 'static {
    let (mut locked, mut listed) = (true, false);
    move |_, member: &str| match member {
        "SearchItems" if locked || !holds => vec![nothing_found()],
        "ReadAlias" => {
            listed = true;
            vec![path(COLLECTION_PATH)]
        }
        "Get" if !listed => {
            listed = true;
            vec![property("ao", |it| {
                it.array(4, |it| it.text(COLLECTION_PATH));
            })]
        }
        "Get" => vec![property("b", |it| it.flag(locked))],
        "Unlock" => vec![paths("aoo", &[], |it| it.text(PROMPT_PATH))],
        "Prompt" => {
            locked = dismissed;
            let told = body(|it| {
                it.flag(dismissed);
                it.variant(|it| it.text(""), "s");
            });
            let mut acts = usual(member, false);
            acts.push(Act::Signal(PROMPT_PATH, "Completed", "bv", told));
            acts
        }
        member => usual(member, false),
    }
}

const COLLECTION_PATH: &str = "/collection/1";

/// An entry in a collection that is locked is not missing: nobody makes another in its place.
#[test]
fn an_entry_that_is_locked_away_is_not_missing() {
    for extent in [Extent::Everywhere, Extent::ForNew] {
        for (dismissed, holds, expected) in [
            (false, true, Ok(Some(b"hunter99".to_vec()))),
            (false, false, Ok(None)),
            (true, true, Err(Trouble::Locked)),
            (true, false, Err(Trouble::Locked)),
        ] {
            let (got, called) = with(LONG, hiding(dismissed, holds), |it| {
                it.get(&entry(), extent)
            });
            assert_eq!(
                got, expected,
                "{extent:?}, {dismissed}, {holds}: {called:?}"
            );
        }
    }
    // To delete one, nobody is asked to unlock anything.
    let (deleted, called) = with(LONG, hiding(false, true), |it| it.delete(&entry()));
    assert_eq!(deleted, Ok(()));
    assert!(!called.iter().any(|it| it == "Prompt"), "{called:?}");
}

/// One that does not say whether it is locked has not said that an entry is missing.
#[test]
fn a_keyring_that_does_not_say_has_not_said_no() {
    let act = |_, member: &str| match member {
        "SearchItems" => vec![nothing_found()],
        "Get" => vec![Act::Refuse("org.freedesktop.DBus.Error.UnknownMethod")],
        member => usual(member, false),
    };
    let (answer, _) = with(LONG, act, |it| it.get(&entry(), Extent::Everywhere));
    assert!(matches!(answer, Err(Trouble::Broken(_))), "{answer:?}");
}
