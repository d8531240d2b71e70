//! One failure, one kind: what a program can tell apart.

use rustix::process::Signal;
use serde_json::json;

use crate::rig::{Host, Setup, tree, until};

const FOR_EVER: u64 = 3_600_000;

/// FM-21: the same call ended in seven ways: by its caller, by its bound, by the server's death,
/// by the server's own error, by there being no server, by its size and by the end of the
/// session. Each is told from the others by machine.
#[test]
fn fm_21_every_end_has_its_own_kind() {
    let setup = Setup::new().flags(&[
        "--request-timeout",
        "2s",
        "--message-limit",
        "64KiB",
        "--breaker-failures",
        "2",
        "--breaker-retry",
        "3600s",
        "--backoff-base",
        "1ms",
        "--drain",
        "200ms",
    ]);
    let broken = setup.path("broken");
    let mut host = Host::ready(setup.knobs(&["--exit-at-start", "7", "--only-while", &broken]));

    // The caller's own cancellation is its own: no answer at all.
    let cancelled = host.call("sleep", json!({ "ms": FOR_EVER }));
    host.cancel(cancelled);
    // The server's own error is passed on as it is.
    let own = host.ask("fail", json!({}));
    assert_eq!(own.error()["code"], -32042);
    assert_eq!(own.kind(), None);
    let size = host.ask("echo", json!({ "text": "x".repeat(100 << 10) }));
    let time = host.ask("sleep", json!({ "ms": FOR_EVER }));
    let doomed = host.call("sleep", json!({ "ms": FOR_EVER }));
    until("the call at the server", || {
        host.tap()
            .method("tools/call")
            .iter()
            .any(|call| call["id"] == doomed)
            .then_some(())
    });
    std::fs::write(&broken, "").expect("the fault");
    tree::kill(host.server(1), Signal::KILL);
    let death = host.answer(doomed);
    host.event("the breaker", |e| {
        e["event"] == "state" && e["state"] == "failed"
    });
    let absence = host.ask("ping", json!({}));
    assert_eq!(host.answers(cancelled), 0);

    std::fs::remove_file(&broken).expect("the fault");
    host.call_until_up();
    let last = host.call("sleep", json!({ "ms": FOR_EVER }));
    until("the call at the server", || {
        host.tap()
            .method("tools/call")
            .iter()
            .any(|call| call["id"] == last)
            .then_some(())
    });
    host.signal(Signal::TERM);
    let end = host.answer(last);

    for (answer, kind) in [
        (size, "too_large"),
        (time, "timeout"),
        (death, "connection_lost"),
        (absence, "unavailable"),
        (end, "shutting_down"),
    ] {
        answer.refused(kind);
        // -32000…-32099 would look like the server's own errors.
        let code = answer.error()["code"].as_i64().expect("a code");
        assert!(!(-32099..=-32000).contains(&code), "{code}");
        assert!(answer.message().ends_with('.') || answer.message().len() > 40);
    }
}
