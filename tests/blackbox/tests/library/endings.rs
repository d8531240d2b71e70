//! Six ways in which one call can end, none of which can be taken for another.

use std::time::Duration;

use outlive::cause::{Exit, Reason};
use outlive::client::State;
use outlive::{Client, Command, Error};
use serde_json::json;

/// Long enough that only a hang exceeds it.
const PATIENCE: Duration = Duration::from_secs(30);

async fn connect() -> Client {
    let command = Command::new(env!("CARGO_BIN_EXE_fake"), [""; 0]);
    let connect = Client::builder().command(command).connect();
    tokio::time::timeout(PATIENCE, connect)
        .await
        .expect("it connects in time")
        .expect("it connects")
}

#[tokio::test]
async fn a_crash_is_a_lost_connection_and_the_next_call_works() {
    let client = connect().await;
    assert!(client.state().is_ready());
    let tools = client.tools().await.unwrap();
    println!("{:?}", tools.iter().map(|t| &t.name).collect::<Vec<_>>());
    let lost = client.call("crash", json!({"code": 3})).await;
    match lost {
        Err(Error::ConnectionLost { cause, .. }) => {
            assert_eq!(cause.reason, Reason::Exited(Exit::Code(3)));
        }
        other => panic!("{other:?}"),
    }
    client.ready().await.unwrap();
    let again = client.call("echo", json!({"text": "x"})).await.unwrap();
    assert_eq!(again.text(), "x");
    client.close().await;
    assert_eq!(client.state(), State::Closed);
}
