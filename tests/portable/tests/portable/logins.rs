//! Logins, and where they are kept: on Windows sealed with a key of Credential Manager, elsewhere in a file.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Output;
use std::sync::mpsc;

use serde_json::{Value, json};

use crate::{outlive, state};

/// What this system keeps logins in.
const STORE: &str = if cfg!(windows) { "keyring" } else { "file" };
const TOKEN: &str = "a-token-of-hunter-22";

/// Reads a request; its path, and its body.
fn read(stream: &TcpStream) -> Option<(String, String)> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.split_once(':') else {
            break;
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((path, String::from_utf8_lossy(&body).into_owned()))
}

fn answer(stream: &mut TcpStream, status: &str, headers: &str, body: &Value) {
    let body = body.to_string();
    let length = body.len();
    let _ = write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{headers}content-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    );
}

/// A server that wants a login, and its authorization server, for machines. Tells what was revoked.
fn provider() -> (SocketAddr, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (revoked, revocations) = mpsc::channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let Some((path, body)) = read(&stream) else {
                continue;
            };
            let origin = format!("http://{address}");
            match path.as_str() {
                "/mcp" => {
                    let metadata = format!("{origin}/.well-known/oauth-protected-resource/mcp");
                    let wants =
                        format!("www-authenticate: Bearer resource_metadata=\"{metadata}\"\r\n");
                    answer(&mut stream, "401 Unauthorized", &wants, &json!({}));
                }
                "/.well-known/oauth-protected-resource/mcp" => {
                    let about = json!({"resource": format!("{origin}/mcp"), "authorization_servers": [origin]});
                    answer(&mut stream, "200 OK", "", &about);
                }
                "/.well-known/oauth-authorization-server" => {
                    let about = json!({
                        "issuer": origin,
                        "token_endpoint": format!("{origin}/token"),
                        "revocation_endpoint": format!("{origin}/revoke"),
                        "authorization_endpoint": format!("{origin}/authorize"),
                    });
                    answer(&mut stream, "200 OK", "", &about);
                }
                "/token" => {
                    let given =
                        json!({"access_token": TOKEN, "token_type": "Bearer", "expires_in": 3600});
                    answer(&mut stream, "200 OK", "", &given);
                }
                "/revoke" => {
                    let _ = revoked.send(body);
                    answer(&mut stream, "200 OK", "", &json!({}));
                }
                _ => answer(&mut stream, "404 Not Found", "", &json!({})),
            }
        }
    });
    (address, revocations)
}

fn says(words: &[&str]) -> Output {
    let mut command = outlive();
    command.env("OUTLIVE_STATE_DIR", folder());
    command.args(words).output().expect("outlive is built")
}

fn folder() -> PathBuf {
    state().join("of-logins")
}

/// All that is kept, as text.
fn kept() -> String {
    let files = fs::read_dir(folder().join("logins")).expect("a folder");
    let files = files.map(|it| it.expect("a file").path());
    let files = files.filter(|it| it.extension().is_some_and(|it| it == "login"));
    files
        .map(|it| fs::read_to_string(it).expect("text"))
        .collect()
}

#[test]
fn a_login_is_kept_listed_and_forgotten() {
    let (address, revocations) = provider();
    let url = format!("http://{address}/mcp");
    let login = [
        "login",
        "--login",
        "machine",
        "--client-id",
        "me",
        "--client-secret",
        "s3cret",
        "--token-store",
        STORE,
        &url,
    ];
    for _ in 0..2 {
        let done = says(&login);
        assert!(done.status.success(), "{done:?}");
        assert_eq!(kept().contains("\"sealed\""), cfg!(windows));
        assert_eq!(kept().contains(TOKEN), !cfg!(windows));
    }
    let listed = says(&["logins", "--json", "--token-store", STORE]);
    let listed: Value = serde_json::from_slice(&listed.stdout).expect("one login");
    assert_eq!(
        (&listed["server"], &listed["keyring"]),
        (&json!(url), &json!(cfg!(windows)))
    );
    let out = says(&[
        "logout",
        "--client-id",
        "me",
        "--client-secret",
        "s3cret",
        "--token-store",
        STORE,
        &url,
    ]);
    assert!(out.status.success(), "{out:?}");
    let revoked = revocations
        .recv_timeout(crate::PATIENCE)
        .expect("a revocation");
    assert!(revoked.contains(TOKEN), "it could be opened: {revoked}");
    assert_eq!(kept(), "");
}
