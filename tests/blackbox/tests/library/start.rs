//! A server that does not come up, and one that is greeted again and again.

use std::time::Duration;

use outlive::cause::{Exit, Phase, Reason, StartFailure};
use outlive::client::Era;
use outlive::policy::Policy;
use outlive::{Cause, Client, Command, Error};
use rustix::process::Signal;
use serde_json::json;

use crate::rig::{FOR_EVER, Rig, ping, ready, within};

const SHORT: Duration = Duration::from_millis(300);

/// Why a client cannot connect.
async fn unavailable(connecting: impl Future<Output = Result<Client, Error>>) -> (Cause, String) {
    let error = within(connecting).await.map(drop).unwrap_err();
    let words = error.to_string();
    match error {
        Error::Unavailable {
            cause: Some(cause), ..
        } => (cause, words),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_missing_program_is_named() {
    let command = Command::new("/no/such/server", ["--fast"]);
    let (cause, words) = unavailable(Client::builder().command(command).connect()).await;
    assert_eq!(cause.reason, Reason::Unmade(StartFailure::NoFile));
    assert!(words.contains("/no/such/server --fast"), "{words}");
}

#[tokio::test]
async fn a_server_that_exits_is_quoted() {
    for era in [None, Some(Era::Legacy), Some(Era::Modern)] {
        let rig = Rig::both().knobs(&["--exit-at-start", "3", "--say", "no database"]);
        let rig = match era {
            Some(era) => rig.era(era),
            None => rig,
        };
        let (cause, words) = unavailable(rig.try_connect()).await;
        assert_eq!(cause.reason, Reason::Exited(Exit::Code(3)), "{era:?}");
        assert_eq!(cause.phase, Phase::Handshake);
        assert!(words.contains("exited with code 3"), "{words}");
        assert!(words.contains("no database"), "{words}");
        rig.deserted().await;
    }
}

#[tokio::test]
async fn a_server_that_hangs_in_its_handshake_is_given_up() {
    let rig = Rig::legacy().knobs(&["--hang-in-initialize"]);
    let rig = rig.policy(|policy| policy.start_hard = SHORT);
    let (cause, words) = unavailable(rig.try_connect()).await;
    assert_eq!(cause.reason, Reason::SlowHandshake(SHORT));
    assert!(words.contains("300 ms"), "{words}");
    rig.deserted().await;
}

#[tokio::test]
async fn a_server_that_answers_nothing_at_all_is_given_up() {
    let rig = Rig::both().knobs(&["--hang-in-initialize", "--ignore-discover"]);
    let rig = rig.policy(|policy| {
        policy.start_hard = SHORT;
        policy.discover = SHORT;
    });
    let (cause, _) = unavailable(rig.try_connect()).await;
    assert_eq!(cause.reason, Reason::SlowHandshake(SHORT));
    rig.deserted().await;
}

#[tokio::test]
async fn a_refusal_comes_in_the_servers_own_words() {
    let rig = Rig::legacy().knobs(&["--refuse-initialize", "no licence"]);
    let refused = rig.try_connect().await.map(drop).unwrap_err();
    assert!(matches!(&refused, Error::Remote { message, .. } if message == "no licence"));
    rig.deserted().await;
}

#[tokio::test]
async fn a_connector_that_cannot_connect_says_why() {
    let refused =
        || async { Err::<tokio::net::TcpStream, _>(std::io::Error::other("the tunnel is down")) };
    let builder = Client::builder().connector(refused).label("the far server");
    let error = within(builder.connect()).await.map(drop).unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    let words = error.to_string();
    assert!(words.contains("the tunnel is down"), "{words}");
    assert!(words.contains("the far server"), "{words}");
}

#[tokio::test]
async fn a_connection_that_is_never_made_is_given_up() {
    let never = || std::future::pending::<std::io::Result<tokio::net::TcpStream>>();
    let policy = Policy::builder().start_hard(SHORT).build().unwrap();
    let builder = Client::builder()
        .policy(policy)
        .connector(never)
        .era(Era::Legacy);
    let (cause, _) = unavailable(builder.connect()).await;
    assert_eq!(cause.reason, Reason::SlowHandshake(SHORT));
}

#[tokio::test]
async fn a_first_start_that_fails_is_tried_again() {
    let rig = Rig::legacy().knobs(&["--legacy"]);
    let fake = rig.command();
    let mut words = vec![
        "-c".into(),
        r#"[ -e "$0" ] || { : > "$0"; exit 1; }; exec "$@""#.into(),
    ];
    words.push(rig.path("tried").into());
    words.push(fake.program.clone());
    words.extend(fake.args.iter().cloned());
    let mut command = Command::new("sh", words);
    command.env = fake.env;
    let client = within(Client::builder().command(command).connect())
        .await
        .unwrap();
    ping(&client).await;
}

#[tokio::test]
async fn fm_47_every_server_gets_one_handshake_before_anything_else() {
    let rig = Rig::legacy().policy(|policy| policy.backoff.base = Duration::from_millis(1));
    let client = rig.connect().await;
    within(client.tools()).await.unwrap();
    for generation in 2..=4 {
        let calls: Vec<_> = (0..3)
            .map(|_| client.call("sleep", json!({ "ms": FOR_EVER })).start())
            .collect();
        rig.signal(Signal::KILL);
        let held = client.call("ping", json!({})).start();
        ready(&client, generation).await;
        // Sent to the one, which may have read it, or held for the other.
        let _ = within(held).await;
        drop(calls);
    }
    ping(&client).await;
    for n in 1..=4 {
        let sent = rig.tap().received(n);
        let methods: Vec<&str> = sent.iter().filter_map(|m| m["method"].as_str()).collect();
        // The first was asked whether it is a modern one; others died before they had read it all.
        let begin = usize::from(n == 1);
        let begun: Vec<&str> = methods.iter().skip(begin).take(2).copied().collect();
        let greeting = ["initialize", "notifications/initialized"];
        assert!(greeting.starts_with(&begun), "{methods:?}");
        assert!(n < 4 || begun == greeting, "{methods:?}");
        let again = methods
            .iter()
            .filter(|method| **method == "initialize")
            .count();
        assert_eq!(again, 1, "{methods:?}");
    }
    // The same words each time.
    let greetings = rig.tap().method("initialize");
    assert!(
        greetings
            .iter()
            .all(|greeting| greeting["params"] == greetings[0]["params"])
    );
}

#[tokio::test]
async fn the_client_says_who_it_is() {
    let rig = Rig::legacy();
    let client = within(rig.client().info("agent", "7").connect())
        .await
        .unwrap();
    let info = &rig.tap().method("initialize")[0]["params"]["clientInfo"];
    assert_eq!(
        (&info["name"], &info["version"]),
        (&json!("agent"), &json!("7"))
    );
    within(client.close()).await;
}
