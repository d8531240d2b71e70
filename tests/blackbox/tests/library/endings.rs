//! Six ways in which one call can end, none of which can be taken for another (FM-21).

use std::time::Duration;

use outlive::cause::{Exit, Reason};
use outlive::client::State;
use outlive::error::{Bound, Outcome};
use outlive::model::CallResult;
use outlive::{Client, Error};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::rig::{Over, Rig, ping, ready, within};

type Ended = Result<CallResult, Error>;

/// The call that is ended in six ways: it does what the file `strings` says, or nothing.
fn puppet(client: &Client, rig: &Rig, strings: &str) -> outlive::client::Call<CallResult> {
    client.call("puppet", json!({ "strings": rig.path(strings) }))
}

/// The cancellations of calls the servers were sent, each as the id it names.
fn cancelled(rig: &Rig) -> Vec<Value> {
    let all = rig.tap().method("notifications/cancelled");
    all.iter()
        .map(|c| c["params"]["requestId"].clone())
        .collect()
}

async fn six_endings(over: Over) {
    let rig = Rig::legacy().over(over).policy(|policy| {
        policy.drain = Duration::from_millis(1);
    });
    let client = rig.connect().await;
    let server = ping(&client).await;
    let calls = |n: usize| rig.received("tools/call", n);

    // Dropped: nobody is left to have a result, and the server is told so, once.
    let task = tokio::spawn({
        let call = puppet(&client, &rig, "unwritten").start();
        async move { call.await.map(drop) }
    });
    let id = calls(2).await[1]["id"].clone();
    task.abort();
    assert!(within(task).await.unwrap_err().is_cancelled());
    ping(&client).await;
    assert_eq!(cancelled(&rig), [id]);

    // Deadline.
    let timed_out: Ended =
        within(puppet(&client, &rig, "unwritten").timeout(Duration::from_millis(50))).await;
    assert!(matches!(
        timed_out,
        Err(Error::Timeout { after, bound: Bound::Total }) if after == Duration::from_millis(50)
    ));

    // An error of the server's own.
    let strings = rig.file("fail", "fail");
    assert_eq!(strings, rig.path("fail"));
    let remote: Ended = within(puppet(&client, &rig, "fail")).await;
    assert!(matches!(
        &remote,
        Err(Error::Remote { code: -32042, message, .. }) if message == "the tool's own error"
    ));
    assert_eq!(
        ping(&client).await,
        server,
        "the connection is unharmed so far"
    );
    assert_eq!(cancelled(&rig).len(), 2, "the dropped one and the late one");

    // The end of the output of a process that lives.
    rig.file("eof", "eof");
    let eof: Ended = within(puppet(&client, &rig, "eof")).await;
    assert!(matches!(
        &eof,
        Err(Error::ConnectionLost { cause, outcome: Outcome::Unknown, .. })
            if cause.reason == match over {
                Over::Pipes => Reason::Eof,
                Over::Socket => Reason::Disconnected(None),
            }
    ));
    ready(&client, 2).await;
    assert_ne!(ping(&client).await, server);

    // SIGKILL.
    let before = rig.tap().method("tools/call").len();
    let call = puppet(&client, &rig, "unwritten").start();
    calls(before + 1).await;
    rig.signal(Signal::KILL);
    let killed: Ended = within(call).await;
    let Err(Error::ConnectionLost {
        cause,
        outcome: Outcome::Unknown,
        ..
    }) = &killed
    else {
        panic!("{killed:?}");
    };
    match over {
        Over::Pipes => assert_eq!(cause.reason, Reason::Exited(Exit::Signal(9))),
        Over::Socket => assert!(
            matches!(&cause.reason, Reason::Disconnected(Some(_))),
            "{cause:?}"
        ),
    }
    ready(&client, 3).await;
    ping(&client).await;

    // close().
    let before = rig.tap().method("tools/call").len();
    let call = puppet(&client, &rig, "unwritten").start();
    calls(before + 1).await;
    let (closed, ()) = within(async { tokio::join!(call, client.close()) }).await;
    assert!(matches!(
        closed,
        Err(Error::ShuttingDown {
            outcome: Outcome::Unknown
        })
    ));
    assert_eq!(client.state(), State::Closed);
    rig.deserted().await;

    // None of them is another, nor what a cancellation by the caller is.
    let kinds = [&timed_out, &remote, &eof, &killed, &closed].map(|ended| match ended {
        Err(error) => (error.kind(), matches!(error, Error::CancelledByCaller)),
        Ok(_) => panic!("it had no answer"),
    });
    assert_eq!(
        kinds.map(|(kind, _)| kind),
        [
            "timeout",
            "remote",
            "connection_lost",
            "connection_lost",
            "shutting_down"
        ]
    );
    assert!(kinds.iter().all(|(_, by_caller)| !by_caller));
    assert_ne!(eof.unwrap_err(), killed.unwrap_err());
}

#[tokio::test]
async fn six_endings_of_one_call_over_pipes() {
    six_endings(Over::Pipes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn six_endings_of_one_call_over_a_socket() {
    six_endings(Over::Socket).await;
}

#[tokio::test]
async fn fm_21_a_cancelled_call_knows_that_its_caller_did_it() {
    for over in [Over::Pipes, Over::Socket] {
        let rig = Rig::legacy().over(over);
        let client = rig.connect().await;
        let call = puppet(&client, &rig, "unwritten").start();
        let id = rig.received("tools/call", 1).await[0]["id"].clone();
        let canceller = call.canceller();
        std::thread::spawn(move || canceller.cancel("the user pressed stop"));
        let cancelled: Ended = within(call).await;
        assert_eq!(cancelled.unwrap_err(), Error::CancelledByCaller);
        ping(&client).await;
        let told = rig.tap().method("notifications/cancelled");
        assert_eq!(told.len(), 1);
        assert_eq!(told[0]["params"]["requestId"], id);
        assert_eq!(told[0]["params"]["reason"], "the user pressed stop");
        within(client.close()).await;
    }
}
