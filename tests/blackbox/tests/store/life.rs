//! A session goes on in the next process.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::replica::Replica;
use crate::rig::{Setup, until};
use crate::wire;

fn request(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

#[test]
fn fm_53_a_session_survives_the_death_of_its_gateway() {
    let mut replica = Replica::new(&[]);
    let session = replica.session();
    assert_eq!(replica.echo(&session, 1), "hi");
    for n in 2..5 {
        replica.restart(Signal::KILL);
        assert_eq!(replica.echo(&session, n), "hi");
    }
}

#[test]
fn fm_53_a_session_survives_a_restart_of_its_gateway() {
    let mut replica = Replica::new(&[]);
    let session = replica.session();
    assert_eq!(replica.echo(&session, 1), "hi");
    replica.restart(Signal::TERM);
    assert_eq!(replica.echo(&session, 2), "hi");
}

#[test]
fn fm_53_the_next_server_is_told_what_the_client_has_said() {
    let mut replica = Replica::new(&[]);
    let session = replica.session();
    let level = request(1, "logging/setLevel", json!({"level": "info"}));
    replica.ask(&session, &level).answer();
    let subscribe = request(2, "resources/subscribe", json!({"uri": "file:///a"}));
    replica.ask(&session, &subscribe).answer();
    replica.restart(Signal::KILL);
    assert_eq!(replica.echo(&session, 3), "hi");
    let heard = until("the next server is told", || {
        let all = std::fs::read_to_string(replica.setup.path("tap.jsonl")).ok()?;
        let count = |word: &str| all.matches(word).count();
        let both = count("logging/setLevel") >= 2 && count("resources/subscribe") >= 2;
        both.then_some(all)
    });
    assert!(
        heard.matches("notifications/initialized").count() >= 2,
        "{heard}"
    );
}

#[test]
fn fm_74_a_host_is_told_that_the_server_is_another_one() {
    let mut replica = Replica::new(&[]);
    let session = replica.session();
    let level = request(1, "logging/setLevel", json!({"level": "info"}));
    replica.ask(&session, &level).answer();
    replica
        .ask(&session, &request(2, "tools/list", json!({})))
        .answer();
    replica.restart(Signal::KILL);
    let mut news = replica.listen(&session, None);
    assert_eq!(news.status, 200);
    let (mut told, mut changed) = (false, false);
    while !(told && changed) {
        let message = news.message();
        changed |= message["method"] == "notifications/tools/list_changed";
        let params = &message["params"];
        told |= params["logger"] == "outlive" && params["data"]["event"] == "server_replaced";
    }
    assert_eq!(replica.echo(&session, 3), "hi");
}

#[test]
fn clients_that_share_a_server_each_keep_their_session() {
    let mut replica = Replica::new(&["--share"]);
    let sessions = [replica.session(), replica.session()];
    replica.restart(Signal::KILL);
    for session in &sessions {
        assert_eq!(replica.echo(session, 1), "hi");
    }
}

#[test]
fn a_session_before_several_servers_goes_on() {
    let setup = Setup::new();
    let fake = setup.fake();
    let (program, args) = fake.split_first().expect("a program");
    let servers = json!({"mcpServers": {
        "one": {"command": program, "args": args},
        "two": {"command": program, "args": args},
    }});
    let file = setup.file("mcp.json", &servers.to_string());
    let mut replica = Replica::with(setup.flags(&["--servers", &file]));
    let session = replica.session();
    let echo = |replica: &Replica, id| {
        let answer = replica
            .call(&session, id, "two__echo", json!({"text": "hi"}))
            .answer();
        wire::text_of(&answer).to_owned()
    };
    assert_eq!(echo(&replica, 1), "hi");
    replica.restart(Signal::KILL);
    assert_eq!(echo(&replica, 2), "hi");
}

#[test]
fn a_session_that_was_ended_is_not_kept() {
    let mut replica = Replica::new(&[]);
    let (ended, kept) = (replica.session(), replica.session());
    let headers = [("Mcp-Session-Id", &*ended)];
    assert_eq!(
        wire::send(replica.address, "DELETE", &headers, "").status,
        200
    );
    assert_eq!(replica.echo(&kept, 1), "hi");
    until("it is forgotten", || {
        replica.restart(Signal::KILL);
        let status = replica
            .call(&ended, 1, "echo", json!({"text": "hi"}))
            .status;
        (status == 404).then_some(())
    });
    assert_eq!(replica.echo(&kept, 2), "hi");
}

#[test]
fn a_session_that_nobody_uses_runs_out() {
    let mut replica = Replica::new(&["--session-ttl", "1s"]);
    let session = replica.session();
    replica.end(Signal::KILL);
    std::thread::sleep(std::time::Duration::from_millis(2500));
    replica.start();
    let status = replica
        .call(&session, 1, "echo", json!({"text": "hi"}))
        .status;
    assert_eq!(status, 404);
}

#[test]
fn a_session_belongs_to_the_token_that_opened_it() {
    let setup = Setup::new();
    let tokens = setup.file("tokens", "one\ntwo\n");
    let mut replica = Replica::with(setup.flags(&["--token-file", &tokens]));
    let with = |token: &'static str| ("Authorization", token);
    let session = replica.session_with(&[with("Bearer one")]);
    replica.restart(Signal::KILL);
    let call = |replica: &Replica, token| {
        let headers = [with(token), ("Mcp-Session-Id", &*session)];
        replica.post(&headers, &wire::call(1, "echo", json!({"text": "hi"})))
    };
    assert_eq!(call(&replica, "Bearer two").status, 404);
    assert_eq!(wire::text_of(&call(&replica, "Bearer one").answer()), "hi");
    assert_eq!(call(&replica, "Bearer two").status, 404);
    // The order of tokens in the file says nothing.
    replica.setup.file("tokens", "two\none\n");
    replica.restart(Signal::KILL);
    assert_eq!(call(&replica, "Bearer two").status, 404);
    assert_eq!(wire::text_of(&call(&replica, "Bearer one").answer()), "hi");
    assert!(!String::from_utf8_lossy(&replica.stored()).contains("Bearer"));
}
