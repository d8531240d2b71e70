//! A proxy as companies have them: it tunnels (`CONNECT`) and wants to know who asks.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::json;

use crate::rig::{Host, Setup};
use crate::tls::{AUTHORITY, encrypted};
use crate::web::Web;

/// A proxy that leads every tunnel to one server, whatever name was asked for.
struct Proxy {
    address: SocketAddr,
    /// What it was asked: the head of each request.
    asked: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    fn to(server: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let heads = asked.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let heads = heads.clone();
                thread::spawn(move || tunnel(client, server, &heads));
            }
        });
        Proxy { address, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn tunnel(client: TcpStream, server: SocketAddr, heads: &Mutex<Vec<String>>) -> Option<()> {
    let mut reading = BufReader::new(client.try_clone().ok()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        reading.read_line(&mut head).ok().filter(|n| *n > 0)?;
    }
    heads.lock().unwrap().push(head.clone());
    let mut writing = client;
    if !head.starts_with("CONNECT ") {
        let refused = "HTTP/1.1 405 x\r\ncontent-length: 0\r\n\r\n";
        return writing.write_all(refused.as_bytes()).ok();
    }
    let there = TcpStream::connect(server).ok()?;
    writing.write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok()?;
    let (mut from, mut to) = (there.try_clone().ok()?, there);
    let back = thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut writing);
        let _ = writing.shutdown(Shutdown::Write);
    });
    let _ = std::io::copy(&mut reading, &mut to);
    let _ = to.shutdown(Shutdown::Write);
    back.join().ok()
}

/// An encrypted server is reached through a tunnel; the proxy sees the name, its own credentials, and none of ours.
#[test]
fn an_encrypted_server_behind_a_proxy() {
    let web = Web::start(|_| None);
    let proxy = Proxy::to(encrypted(web.address()));
    let setup = Setup::new();
    let authority = setup.file("ca.pem", AUTHORITY);
    let setup = setup
        .env(
            "HTTPS_PROXY",
            &format!("http://me:hunter44@{}", proxy.address),
        )
        .env("NO_PROXY", "")
        .flags(&["--ca-file", &authority, "--header", "X-Key: hunter22"]);
    let mut host = Host::ready(setup.server(&["https://outlive.test/mcp"]));
    host.ask("echo", json!({})).result();
    let asked = proxy.asked();
    assert!(!asked.is_empty());
    for head in asked {
        assert!(head.starts_with("CONNECT outlive.test:443 "), "{head}");
        let head = head.to_lowercase();
        assert!(
            head.contains("proxy-authorization: basic bwu6ahvudgvyndq="),
            "{head}"
        );
        assert!(!head.contains("hunter22"), "{head}");
    }
    for request in web.seen() {
        assert_eq!(request.header("x-key"), Some("hunter22"));
        assert_eq!(request.header("proxy-authorization"), None);
    }
}

/// `NO_PROXY` names what is reached without one.
#[test]
fn what_no_proxy_names_is_reached_directly() {
    let web = Web::start(|_| None);
    let proxy = Proxy::to(web.address());
    let setup = Setup::new()
        .env("HTTPS_PROXY", &format!("http://{}", proxy.address))
        .env("NO_PROXY", "outlive.invalid")
        .flags(&["--breaker-window", "1s"]);
    let mut host = setup.server(&["https://outlive.invalid/mcp"]).start();
    let id = host.request("initialize", json!({}));
    host.answer(id).refused("unavailable");
    assert!(proxy.asked().is_empty());
}

/// A proxy that is not there, or refuses, is said to be the matter, and its credentials are not shown.
#[test]
fn a_proxy_that_refuses_is_told_of() {
    let nobody = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = nobody.local_addr().expect("an address");
    drop(nobody);
    let setup = Setup::new()
        .env("HTTPS_PROXY", &format!("http://me:hunter44@{address}"))
        .env("NO_PROXY", "")
        .flags(&["--breaker-window", "1s"]);
    let mut host = setup.server(&["https://outlive.invalid/mcp"]).start();
    let id = host.request("initialize", json!({}));
    let answer = host.answer(id);
    answer.refused("unavailable");
    let log = std::fs::read_to_string(host.setup.path("log.jsonl")).unwrap();
    let shown = format!("{log}{}{}", answer.0, host.last_stderr());
    assert!(!shown.contains("hunter44"), "{shown}");
}
