//! What `outlive status` says of a gateway.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::rig::{tree, until};

fn running(gateway: &Gateway) -> Value {
    let output = gateway.setup.outlive_says(&["status", "--json"]);
    let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    said["running"][0].clone()
}

#[test]
fn a_gateway_is_shown_with_all_its_servers_and_their_sum() {
    let gateway = Gateway::new(&[]);
    let idle = running(&gateway);
    assert_eq!(
        (&idle["mode"], &idle["servers"]),
        (&json!("serve"), &json!([]))
    );
    let address = idle["address"].as_str().expect("an address");
    assert!(
        address.ends_with(&format!(":{}/mcp", gateway.address.port())),
        "{address}"
    );

    let sessions = [gateway.session(), gateway.session()];
    for (id, session) in (1..).zip(&sessions) {
        assert_eq!(gateway.call(session, id, "ping", json!({})).status, 200);
    }
    let pids = gateway.setup.tap().pids();
    tree::kill(pids[0], Signal::KILL);
    let now = until("the restart", || {
        let now = running(&gateway);
        let ready = now["servers"]
            .as_array()?
            .iter()
            .all(|it| it["state"] == "ready");
        (ready && now["restarts"] == 1).then_some(now)
    });
    let servers = now["servers"].as_array().expect("a list");
    assert_eq!(servers.len(), 2);
    let restarts: Vec<&Value> = servers.iter().map(|it| &it["restarts"]).collect();
    assert!(
        restarts.contains(&&json!(1)) && restarts.contains(&&json!(0)),
        "{now}"
    );
    assert_eq!(now["last_loss"]["cause"]["signal"], 9);
    let table = gateway.setup.outlive_says(&["status"]);
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(
        table.contains("2 ready") && table.contains("[1] ready"),
        "{table}"
    );
}

#[test]
fn the_log_of_a_gateway_tells_its_servers_apart() {
    let mut gateway = Gateway::new(&[]);
    let session = gateway.session();
    assert_eq!(gateway.call(&session, 1, "ping", json!({})).status, 200);
    gateway.signal(Signal::TERM);
    assert!(gateway.join().success());
    let output = gateway.setup.outlive_says(&["logs", "fake"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for words in [
        "began: ",
        "listening: ",
        "[1] connected",
        "ended: it was stopped by a signal",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}
