//! Addresses where nobody is, or somebody else.

use std::io::Write;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::rig::{PATIENCE, Setup};
use crate::tls::encrypted;
use crate::web::Web;

/// "Within a few seconds", on a machine that is busy with other things.
const SOON: Duration = Duration::from_secs(5);

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"rig","version":"0"}}}"#;

/// A port that nobody listens on.
fn free() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address")
}

fn initialize() -> Value {
    serde_json::from_str::<Value>(INITIALIZE).expect("JSON")["params"].clone()
}

/// `echo INITIALIZE | outlive run ADDRESS`: answered with the cause, within seconds, and then it is over.
#[test]
fn invariant_01_a_wrong_address_is_told_within_seconds() {
    let web = Web::start(|_| None);
    // No name is that long, so nobody is asked for it.
    let unknown = format!("http://{}.invalid/mcp", "n".repeat(64));
    for (address, cause) in [
        (format!("http://{}/mcp", free()), "refused"),
        ("http://127.0.0.1:1/mcp".to_owned(), "refused"),
        (unknown, ""),
        (
            format!("https://{}/mcp", encrypted(web.address())),
            "certificate",
        ),
    ] {
        let begun = Instant::now();
        let (setup, mut command) = (Setup::new(), Command::new(Setup::outlive()));
        setup.dress(&mut command);
        command.args(["run", &address]).stderr(Stdio::null());
        let mut outlive = command.spawn().expect("outlive");
        let mut input = outlive.stdin.take().expect("its input");
        writeln!(input, "{INITIALIZE}").expect("written");
        drop(input);
        let output = outlive.wait_with_output().expect("its end");
        let took = begun.elapsed();
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| {
            panic!(
                "{address}: {e}: {:?}",
                String::from_utf8_lossy(&output.stdout)
            )
        });
        assert_eq!(answer["id"], 1);
        let about = &answer["error"]["data"]["outlive"];
        assert_eq!(about["kind"], "unavailable", "{answer}");
        assert_eq!(about["cause"]["kind"], "unreachable", "{answer}");
        let words = answer["error"]["message"]
            .as_str()
            .unwrap_or_default()
            .to_lowercase();
        assert!(words.contains(cause), "{words}");
        assert!(took < SOON, "{address}: {took:?}");
    }
}

/// The host stays: it is told as soon, and can begin again when the address is right.
#[test]
fn invariant_01_a_host_that_begins_again_later_is_served() {
    let address = free();
    let mut host = Setup::new()
        .server(&[&format!("http://{address}/mcp")])
        .start();
    let begun = Instant::now();
    let first = host.request("initialize", initialize());
    host.answer(first).refused("unavailable");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    let _web = Web::start_at(address, |_| None);
    let second = host.request("initialize", initialize());
    host.answer(second).result();
    host.notify("notifications/initialized", json!({}));
    host.ask("echo", json!({})).result();
}

/// A server that is started a moment later than its host is found.
#[test]
fn a_server_that_comes_up_a_moment_later_is_found() {
    let address = free();
    let mut host = Setup::new()
        .server(&[&format!("http://{address}/mcp")])
        .start();
    let first = host.request("initialize", initialize());
    sleep(Duration::from_millis(700));
    let _web = Web::start_at(address, |_| None);
    host.answer(first).result();
    host.notify("notifications/initialized", json!({}));
    host.ask("echo", json!({})).result();
}

/// A call waits for as long as `--hold` says, however often nobody is found meanwhile.
#[test]
fn invariant_03_the_hold_is_kept_at_an_address_where_nobody_is() {
    let server = format!("http://{}/mcp", free());
    let mut host = Setup::new()
        .flags(&["--hold", "1s"])
        .server(&[&server])
        .start();
    let begun = Instant::now();
    let call = host.call("echo", json!({}));
    host.answer(call).refused("unavailable");
    let took = begun.elapsed();
    assert!(
        took >= Duration::from_secs(1) && took < PATIENCE.min(Duration::from_secs(20)),
        "{took:?}"
    );
}
