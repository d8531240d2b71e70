//! An rmcp client on a supervised transport.

use std::time::Duration;

use outlive::cause::{Exit, Reason};
use outlive::client::{Event, State};
use outlive::error::Outcome;
use outlive::policy::Policy;
use outlive::rmcp::{ErrorExt, Handle, Supervised};
use outlive::{Command, Error};
use rmcp::model::{ProgressNotificationParam, ProtocolVersion};
use rmcp::service::{
    ClientLifecycleMode, NotificationContext, PeerRequestOptions, RunningService,
    serve_client_with_lifecycle,
};
use rmcp::transport::TokioChildProcess;
use rmcp::{ClientHandler, RoleClient, ServiceError, ServiceExt};

use crate::rig::{self, Note, TOOLS, within};

fn tools() -> Supervised {
    Supervised::command(Command::new(TOOLS, [] as [&str; 0]))
}

async fn connected() -> (RunningService<RoleClient, ()>, Handle) {
    let transport = tools();
    let handle = transport.handle();
    let client = ().serve(transport).await.expect("it connects");
    (client, handle)
}

#[tokio::test]
async fn a_client_survives_kill_9_in_the_middle_of_a_call() {
    within(async {
        let (mut client, handle) = connected().await;
        let mut events = handle.events();
        let before = rig::pid(&client).await;
        let note = Note::new();
        let call = tokio::spawn({
            let (peer, call) = (client.peer().clone(), note.call("linger"));
            async move { peer.call_tool(call).await }
        });
        note.says("begun").await;
        rig::kill(before);

        let error = call.await.expect("no panic").expect_err("it is lost");
        assert!(matches!(error, ServiceError::TransportSend(_)), "{error:?}");
        let Some(Error::ConnectionLost { cause, outcome, .. }) = error.outlive() else {
            panic!("{error:?}");
        };
        assert_eq!(cause.reason, Reason::Exited(Exit::Signal(9)));
        assert_eq!(*outcome, Outcome::Unknown);

        // The same client, with the next server.
        assert_eq!(rig::text(&client, "ping").await.expect("a pong"), "pong");
        assert_ne!(rig::pid(&client).await, before);
        assert_eq!(note.lines(), ["begun"], "it was not sent again");
        let State::Ready { generation } = handle.state() else {
            panic!("{:?}", handle.state());
        };
        assert_eq!(generation.number(), 2);
        assert!(!client.is_closed());

        let mut seen = Vec::new();
        while seen.last() != Some(&"connected") {
            match events.next().await.expect("it is not closed") {
                Event::Lost { in_flight: 1, .. } => seen.push("lost"),
                Event::Connected { .. } => seen.push("connected"),
                _ => {}
            }
        }
        assert_eq!(seen, ["lost", "connected"]);
        client.close().await.expect("no panic");
        assert_eq!(handle.state(), State::Closed);
    })
    .await;
}

/// What the adapter is for: rmcp's own transport ends with its first server.
#[tokio::test]
async fn a_plain_client_does_not_survive() {
    within(async {
        let server = TokioChildProcess::new(tokio::process::Command::new(TOOLS));
        let client = ().serve(server.expect("it starts")).await.expect("it connects");
        let pid = rig::pid(&client).await;
        rig::kill(pid);
        for _ in 0..3 {
            let error = rig::text(&client, "ping").await.expect_err("no server");
            assert!(error.outlive().is_none());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn many_deaths_cost_no_more_than_their_calls() {
    within(async {
        let (mut client, _) = connected().await;
        for _ in 0..5 {
            rig::kill(rig::pid(&client).await);
            // It may be in flight at the death, which it is told, or wait for the next server.
            match rig::text(&client, "ping").await {
                Ok(pong) => assert_eq!(pong, "pong"),
                Err(error) => assert_eq!(
                    error.outlive().map(Error::kind),
                    Some("connection_lost"),
                    "{error:?}"
                ),
            }
        }
        assert_eq!(rig::text(&client, "ping").await.expect("a pong"), "pong");
        client.close().await.expect("no panic");
    })
    .await;
}

/// `look` is read-only and was listed as such, so the session sends it again.
#[tokio::test]
async fn a_safe_call_is_answered_by_the_next_server() {
    within(async {
        let (mut client, _) = connected().await;
        client.list_all_tools().await.expect("a list");
        let pid = rig::pid(&client).await;
        let note = Note::new();
        let call = client.call_tool(note.call("look"));
        let kill = async {
            note.says("begun").await;
            rig::kill(pid);
        };
        let (result, ()) = tokio::join!(call, kill);
        assert_eq!(rig::first_text(&result.expect("an answer")), "seen");
        assert_eq!(note.lines(), ["begun", "begun"]);
        client.close().await.expect("no panic");
    })
    .await;
}

#[tokio::test]
async fn a_dropped_call_is_cancelled_and_stays_so() {
    within(async {
        let (mut client, _) = connected().await;
        let before = rig::pid(&client).await;
        let note = Note::new();
        tokio::select! {
            early = client.call_tool(note.call("linger")) => panic!("{early:?}"),
            () = note.says("begun") => {}
        }
        note.says("cancelled").await;
        assert_eq!(rig::text(&client, "ping").await.expect("a pong"), "pong");
        assert_eq!(rig::pid(&client).await, before, "nobody had to die for it");

        rig::kill(before);
        let after = rig::text(&client, "ping").await;
        assert!(after.is_ok() || rig::text(&client, "ping").await.is_ok());
        assert_eq!(note.lines(), ["begun", "cancelled"], "not sent again");
        client.close().await.expect("no panic");
    })
    .await;
}

#[tokio::test]
async fn a_timeout_of_rmcps_is_its_own() {
    within(async {
        let (mut client, _) = connected().await;
        let note = Note::new();
        let request = rmcp::model::CallToolRequest::new(note.call("linger"));
        let mut options = PeerRequestOptions::no_options();
        options.timeout = Some(Duration::from_millis(300));
        let call = client
            .send_cancellable_request(request.into(), options)
            .await
            .expect("it is sent");
        let error = call.await_response().await.expect_err("it takes too long");
        assert!(matches!(error, ServiceError::Timeout { .. }), "{error:?}");
        note.says("cancelled").await;
        assert_eq!(rig::text(&client, "ping").await.expect("a pong"), "pong");
        client.close().await.expect("no panic");
    })
    .await;
}

#[tokio::test]
async fn the_modern_era_survives_as_well() {
    within(async {
        let discover = ClientLifecycleMode::Discover {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        };
        let client = serve_client_with_lifecycle((), tools(), discover).await;
        let mut client = client.expect("it connects");
        let before = rig::pid(&client).await;
        rig::kill(before);
        let after = match rig::text(&client, "pid").await {
            Ok(pid) => pid,
            Err(_) => rig::text(&client, "pid").await.expect("the next server"),
        };
        assert_ne!(after, before.as_raw_nonzero().to_string());
        client.close().await.expect("no panic");
    })
    .await;
}

#[tokio::test]
async fn a_server_that_cannot_be_started_is_a_typed_error() {
    within(async {
        let mut policy = Policy::default();
        policy.breaker.failures = 2;
        policy.backoff.base = Duration::from_millis(10);
        let missing = Command::new("/there/is/no/such/server", [] as [&str; 0]);
        let transport = Supervised::command(missing).policy(policy);
        let handle = transport.handle();
        let error = ().serve(transport).await.expect_err("there is no server");
        let Some(Error::Unavailable { cause, .. }) = error.outlive() else {
            panic!("{error:?}");
        };
        let cause = cause.as_ref().expect("a reason");
        assert!(cause.label.contains("no/such/server"), "{cause:?}");
        // rmcp has dropped the transport, which ends the session.
        assert!(within(handle.ready()).await.is_err());
    })
    .await;
}

#[tokio::test]
async fn closing_is_bounded_and_leaves_nothing_behind() {
    within(async {
        let (mut client, handle) = connected().await;
        let pid = rig::pid(&client).await;
        let note = Note::new();
        let call = tokio::spawn({
            let (peer, call) = (client.peer().clone(), note.call("linger"));
            async move { peer.call_tool(call).await }
        });
        note.says("begun").await;
        client.close().await.expect("no panic");
        assert!(rig::is_gone(pid));
        assert_eq!(handle.state(), State::Closed);
        assert_eq!(note.lines(), ["begun", "cancelled"], "it was told to stop");
        assert!(call.await.expect("no panic").is_err());
        assert!(rig::text(&client, "ping").await.is_err());
    })
    .await;
}

#[tokio::test]
async fn a_dropped_client_takes_its_server_along() {
    within(async {
        let (client, handle) = connected().await;
        let pid = rig::pid(&client).await;
        drop(client);
        rig::until("the server is gone", || rig::is_gone(pid)).await;
        rig::until("closed", || handle.state() == State::Closed).await;
    })
    .await;
}

#[tokio::test]
async fn reconnecting_replaces_the_server_under_the_client() {
    within(async {
        let (mut client, handle) = connected().await;
        let before = rig::pid(&client).await;
        handle.reconnect();
        rig::until("the old one is gone", || rig::is_gone(before)).await;
        assert_ne!(rig::pid(&client).await, before);
        client.close().await.expect("no panic");
    })
    .await;
}

/// Collects the progress it is told of.
#[derive(Clone, Default)]
struct Progress(std::sync::Arc<std::sync::Mutex<Vec<f64>>>);

impl ClientHandler for Progress {
    async fn on_progress(
        &self,
        progress: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.0.lock().expect("no panic").push(progress.progress);
    }
}

/// rmcp gives each notification a task of its own, so on one thread they run as they came.
#[tokio::test]
async fn progress_comes_in_order_and_before_the_answer() {
    within(async {
        let progress = Progress::default();
        let mut client = progress.clone().serve(tools()).await.expect("it connects");
        assert_eq!(
            rig::text(&client, "steps").await.expect("an answer"),
            "done"
        );
        let all = || progress.0.lock().expect("no panic").len() == 20;
        rig::until("all steps are told", all).await;
        let told = progress.0.lock().expect("no panic").clone();
        assert!(told.is_sorted(), "{told:?}");
        client.close().await.expect("no panic");
    })
    .await;
}
