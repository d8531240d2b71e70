//! A client at rest takes no processor time. Alone in its process, whose time is measured.
#![cfg(all(feature = "server", target_os = "linux"))]

#[path = "support/processor.rs"]
mod processor;

use outlive::{Client, Command};
use serde_json::json;

use processor::assert_comes_to_rest;

#[test]
fn a_client_that_has_nothing_more_to_ask_takes_no_processor_time() {
    let test = std::env::current_exe().expect("to know where we are");
    let target = test.parent().and_then(|deps| deps.parent());
    let everything = target.expect("a directory").join("examples/everything");
    for mut runtime in [
        tokio::runtime::Builder::new_current_thread(),
        tokio::runtime::Builder::new_multi_thread(),
    ] {
        let runtime = runtime.enable_all().build().expect("a runtime");
        let everything = everything.to_string_lossy().into_owned();
        runtime.block_on(async {
            let command = Command::new(everything, ["--multi-thread"]);
            let client = Client::builder().command(command).connect().await.unwrap();
            for _ in 0..500 {
                client.call("ping", json!({})).await.unwrap();
            }
            // One is out for as long as we look.
            let slow = client.call("sleep", json!({ "ms": 600_000 })).start();
            let looking = tokio::task::spawn_blocking(|| assert_comes_to_rest(std::process::id()));
            looking.await.unwrap();
            drop(slow);
            client.close().await;
        });
    }
}
