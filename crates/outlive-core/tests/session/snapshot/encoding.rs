//! The bytes of a snapshot.

use super::*;

#[test]
fn what_is_attached_is_found_again() {
    let snapshot = Pair::ready()
        .session
        .snapshot(Time::ZERO)
        .expect("a snapshot");
    assert_eq!(snapshot.attachment(), b"");
    let bytes = snapshot
        .attach(&b"one"[..])
        .attach(&b"another"[..])
        .encode();
    assert_eq!(
        Snapshot::decode(&bytes).expect("a snapshot").attachment(),
        b"another"
    );
}

#[test]
fn there_is_no_snapshot_of_what_is_ending_or_not_done() {
    let mut p = Pair::ready();
    let session = |p: &Pair| p.session.snapshot(Time::ZERO).map(|_| ());
    assert_eq!(session(&p), Ok(()));
    p.session.handle(
        Time::ZERO,
        Input::Host(Frame::read(call(7, "risky").into())),
    );
    assert_eq!(session(&p), Err(SnapshotError::Undrained));
    while p.session.poll().is_some() {}
    assert_eq!(session(&p), Ok(()));
    for (end, n) in [(Input::Stop, 1), (Input::HostClosed, 1), (Input::Stop, 9)] {
        let mut p = Pair::ready();
        p.call(7, "risky");
        p.feed(end);
        p.advance(n * 1_000);
        assert_eq!(session(&p), Err(SnapshotError::Ending));
    }
}

#[test]
fn a_session_at_rest_is_small() {
    let mut p = Pair::ready();
    let tools: Vec<String> = (0..30)
        .map(|n| {
            format!(
                r#"{{"name":"a_tool_of_usual_length_{n}","description":"{}"}}"#,
                "x".repeat(800)
            )
        })
        .collect();
    p.request(1, "tools/list");
    p.result(1, &format!(r#"{{"tools":[{}]}}"#, tools.join(",")));
    for id in 10..20 {
        p.host(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"resources/subscribe","params":{{"uri":"file:///srv/data/{id}"}}}}"#
        ));
        p.result(id, "{}");
    }
    let size = p.snapshot().len();
    assert!(size < 2600, "{size} bytes");
    assert!(Pair::ready().snapshot().len() < 300);
}

/// The bytes of a session that has some of everything.
fn rich() -> Vec<u8> {
    let mut p = settled();
    p.request(1, "tools/list");
    p.result(1, r#"{"tools":[{"name":"a"}],"nextCursor":"2"}"#);
    p.host(r#"{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"risky","task":{},"_meta":{"progressToken":"t"}}}"#);
    p.result(6, "{}");
    p.call(7, "safe");
    p.server(ASKED);
    p.request(8, "resources/read");
    unanswered(&mut p, 8, rejected(503, Some(12)));
    p.request(9, "resources/read");
    unanswered(&mut p, 9, rejected(429, Some(1)));
    p.host(SAID);
    p.advance(500);
    p.snapshot()
}

#[test]
fn the_format_is_what_it_was() {
    // A later version of this program has to read it, or to give it another version.
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/session/snapshot.v1");
    assert_eq!(rich(), std::fs::read(path).expect("a file"));
}

#[test]
fn what_is_no_snapshot_or_not_all_of_one_is_refused() {
    let bytes = rich();
    let error = |bytes: &[u8]| Snapshot::decode(bytes).err();
    assert_eq!(error(&bytes), None);
    for len in 0..bytes.len() {
        assert_eq!(error(&bytes[..len]), Some(ResumeError::Truncated), "{len}");
    }
    assert_eq!(
        error(&[&bytes[..], b"x"].concat()),
        Some(ResumeError::Damaged)
    );
    assert_eq!(error(b"{}"), Some(ResumeError::NotASnapshot));
    let mut later = bytes.clone();
    later[7] = 2;
    assert_eq!(error(&later), Some(ResumeError::UnknownVersion(2)));
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            let error = error(&damaged);
            let expected = match at {
                0..7 => matches!(error, Some(ResumeError::NotASnapshot)),
                7 => matches!(error, Some(ResumeError::UnknownVersion(_))),
                8..12 => matches!(error, Some(ResumeError::Truncated | ResumeError::Damaged)),
                _ => error == Some(ResumeError::Damaged),
            };
            assert!(expected, "byte {at}: {error:?}");
        }
    }
}

#[test]
fn a_snapshot_that_is_more_than_the_policy_allows_is_refused() {
    type Change<'a> = &'a dyn Fn(&mut Policy);
    let resume = |bytes: &[u8], change: Change<'_>| {
        let mut policy = Policy::default();
        change(&mut policy);
        let snapshot = Snapshot::decode(bytes).expect("a snapshot");
        Session::resume(policy, 1, snapshot, Time::ZERO).err()
    };
    let bytes = rich();
    assert_eq!(resume(&bytes, &|_| ()), None);
    let cases: [(&str, Change<'_>, Change<'_>); 4] = [
        (
            "requests",
            &|p| (p.limits.in_flight, p.limits.held) = (0, 1),
            &|p| (p.limits.in_flight, p.limits.held) = (1, 1),
        ),
        (
            "bytes in one message",
            &|p| p.limits.message = INITIALIZE.len() - 1,
            &|p| p.limits.message = INITIALIZE.len(),
        ),
        ("subscriptions", &|p| p.limits.subscriptions = 0, &|p| {
            p.limits.subscriptions = 1
        }),
        ("questions of the server", &|p| p.limits.asks = 0, &|p| {
            p.limits.asks = 1
        }),
    ];
    for (what, tight, enough) in cases {
        assert_eq!(resume(&bytes, tight), Some(ResumeError::TooLarge(what)));
        assert_eq!(resume(&bytes, enough), None, "{what}");
    }

    let mut p = Pair::ready();
    (10..20).for_each(|id| p.call(id, "risky"));
    let (all, longest) = (10 * call(10, "risky").len(), INITIALIZE.len());
    let at_most = |most: usize| {
        resume(&p.snapshot(), &|policy| {
            let limits = &mut policy.limits;
            (limits.message, limits.held_bytes) = (longest, 0);
            limits.in_flight_bytes = most - 4 * longest;
        })
    };
    assert_eq!(at_most(all), None);
    let too_many = Some(ResumeError::TooLarge("bytes of requests"));
    assert_eq!(at_most(all - 1), too_many);

    let mut p = Pair::ready();
    p.host(&call(7, "risky").replace("7", &format!("\"{}\"", "7".repeat(4094))));
    assert_eq!(
        resume(&p.snapshot(), &|_| ()),
        None,
        "the longest id there is"
    );
}

#[test]
fn errors_say_what_is_wrong() {
    let cases = [
        (
            ResumeError::NotASnapshot,
            "this is no snapshot of a session",
        ),
        (
            ResumeError::UnknownVersion(7),
            "the snapshot has version 7 of the format, and this program knows version 1",
        ),
        (ResumeError::Truncated, "the end of the snapshot is missing"),
        (ResumeError::Damaged, "the snapshot is damaged"),
        (
            ResumeError::Malformed("a list"),
            "the snapshot makes no sense: a list cannot be read",
        ),
        (
            ResumeError::TooLarge("subscriptions"),
            "the snapshot has more subscriptions than the policy allows",
        ),
    ];
    for (error, words) in cases {
        assert_eq!(error.to_string(), words);
    }
    assert_eq!(SnapshotError::Ending.to_string(), "the session is ending");
    assert_eq!(
        SnapshotError::Undrained.to_string(),
        "the session's outputs have not all been carried out"
    );
}
