//! A client at rest takes no processor time. Alone in its process, whose time is measured.
#![cfg(all(feature = "server", target_os = "linux"))]

use std::fs;
use std::time::Duration;

use outlive::{Client, Command};
use serde_json::json;

/// The time all threads of this process have taken.
fn processor_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").expect("a process");
    // After the name, which may contain anything.
    let fields = stat.rsplit(')').next().expect("fields").split_whitespace();
    let ticks: u64 = fields
        .skip(11)
        .take(2)
        .map(|field| field.parse::<u64>().expect("a number"))
        .sum();
    // The kernel's unit here is a hundredth of a second on every architecture.
    Duration::from_millis(10 * ticks)
}

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
            let (begun, rest) = (processor_time(), Duration::from_secs(1));
            tokio::time::sleep(rest).await;
            let share = (processor_time() - begun).as_secs_f64() / rest.as_secs_f64();
            assert!(share < 0.2, "{share} of a processor at rest");
            drop(slow);
            client.close().await;
        });
    }
}
