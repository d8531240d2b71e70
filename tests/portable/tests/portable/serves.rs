//! `outlive serve`, and `outlive run` before an address.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::host::{Host, introduction};
use crate::processes::{kill, lives};
use crate::{PATIENCE, outlive, server, until};

struct Gateway {
    outlive: Child,
    url: String,
}

impl Gateway {
    fn new() -> Gateway {
        let mut command = outlive();
        command.args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--log-format",
            "json",
            "--",
            server(),
        ]);
        let child = command
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .stdout(Stdio::null());
        let mut outlive = child.spawn().expect("outlive is built");
        let mut log = BufReader::new(outlive.stderr.take().expect("a pipe")).lines();
        let url = log.by_ref().map_while(Result::ok).find_map(|line| {
            let event: Value = serde_json::from_str(&line).ok()?;
            (event["event"] == "listening").then(|| event["url"].as_str().map(str::to_owned))?
        });
        std::thread::spawn(move || log.for_each(drop));
        Gateway {
            outlive,
            url: url.expect("it listens"),
        }
    }

    /// One exchange: the head of the response and its body.
    fn exchange(&self, head: &str, body: &str) -> (String, String) {
        let address = self.url.trim_start_matches("http://");
        let (address, _) = address.split_once('/').expect("a path");
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream
            .set_read_timeout(Some(PATIENCE))
            .expect("a time limit");
        let request = format!(
            "{head} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n",
            body.len()
        );
        let session = format!("{request}\r\n{body}");
        stream.write_all(session.as_bytes()).expect("it reads");
        let mut all = String::new();
        stream.read_to_string(&mut all).expect("an answer");
        let (head, body) = all.split_once("\r\n\r\n").expect("a head");
        (head.to_owned(), body.to_owned())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.outlive.kill();
        let _ = self.outlive.wait();
    }
}

#[test]
fn a_gateway_answers_over_http() {
    let gateway = Gateway::new();
    assert!(gateway.exchange("GET /health", "").0.contains("200"));
    let initialize = json!({
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": introduction(),
    });
    let (head, body) = gateway.exchange("POST /mcp", &initialize.to_string());
    assert!(
        head.contains("200") && body.contains("\"portable\""),
        "{head}\n{body}"
    );
}

#[test]
fn a_session_over_http_outlives_its_server() {
    let mut gateway = Gateway::new();
    let url = gateway.url.clone();
    let mut host = Host::before(&[&url]);
    let first = host.number("pid");
    kill(first);
    until("a new server answers", || {
        let call = host.call("pid", json!({}));
        let answer = host.answer(call);
        answer["result"]["content"][0]["text"]
            .as_str()
            .is_some_and(|text| text != first.to_string())
    });
    let (second, child) = (host.number("pid"), host.number("child"));
    gateway.outlive.kill().expect("it is killed");
    until("all are gone", || !lives(second) && !lives(child));
}
