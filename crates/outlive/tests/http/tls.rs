//! Encrypted connections.
//!
//! The certificates in `tls/` are for 127.0.0.1; the keys of the authorities that have signed them were thrown away.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::json;
use tempfile::TempDir;

use crate::offer::Offer;
use crate::rig::*;

const FIRST: [&str; 2] = [include_str!("tls/first.pem"), include_str!("tls/first.key")];
const SECOND: [&str; 2] = [
    include_str!("tls/second.pem"),
    include_str!("tls/second.key"),
];
const FIRST_AUTHORITY: &[u8] = include_bytes!("tls/first-ca.pem");
const SECOND_AUTHORITY: &[u8] = include_bytes!("tls/second-ca.pem");

/// A certificate and its key where a server finds them.
struct Pair {
    _folder: TempDir,
    certificate: PathBuf,
    key: PathBuf,
}

impl Pair {
    fn new(pair: [&str; 2]) -> Pair {
        let folder = tempfile::tempdir().expect("a folder");
        let (certificate, key) = (
            folder.path().join("cert.pem"),
            folder.path().join("key.pem"),
        );
        let files = Pair {
            _folder: folder,
            certificate,
            key,
        };
        files.become_(pair);
        files
    }

    fn become_(&self, [certificate, key]: [&str; 2]) {
        fs::write(&self.certificate, certificate).expect("written");
        fs::write(&self.key, key).expect("written");
    }

    fn rig(&self, offer: &Offer) -> Rig {
        Rig::with(&offer.server, |http| {
            http.tls(&self.certificate, &self.key)
                .read_timeout(Duration::from_secs(1))
        })
    }
}

/// The whole response to a request, if the server is one that this authority vouches for.
fn ask(rig: &Rig, authority: &[u8], request: &str) -> Result<String, std::io::Error> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(authority).expect("a certificate");
    roots.add(authority).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let name = ServerName::try_from("127.0.0.1").expect("a name");
    let connection = ClientConnection::new(Arc::new(config), name).expect("a connection");
    let mut stream = StreamOwned::new(connection, rig.connect());
    stream.write_all(request.as_bytes())?;
    let mut response = Vec::new();
    match stream.read_to_end(&mut response) {
        Err(error) if error.kind() != ErrorKind::UnexpectedEof => return Err(error),
        _ => {}
    }
    assert_eq!(stream.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
    Ok(String::from_utf8(response).expect("text"))
}

fn handshake() -> String {
    let body = initialize().to_string();
    head("POST", &[("Connection", "close")], body.len()) + &body
}

#[test]
fn clients_that_trust_the_certificate_are_served() {
    let offer = Offer::new();
    let rig = Pair::new(FIRST).rig(&offer);
    let response = ask(&rig, FIRST_AUTHORITY, &handshake()).expect("a response");
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    assert!(response.contains("serverInfo"), "{response}");
    ask(&rig, SECOND_AUTHORITY, &handshake()).expect_err("a stranger");
}

#[test]
fn a_client_that_does_not_encrypt_is_told_to() {
    let offer = Offer::new();
    let rig = Pair::new(FIRST).rig(&offer);
    let reply = rig.send("POST", &[], &initialize().to_string());
    assert_eq!(reply.status, 400);
    let mut junk = rig.connect();
    junk.write_all(b"\x16\x03\x01nonsense").expect("sent");
    let mut rest = Vec::new();
    let _ = junk.read_to_end(&mut rest);
    assert!(!rest.starts_with(b"HTTP"));
    ask(&rig, FIRST_AUTHORITY, &handshake()).expect("others are served");
}

#[test]
fn a_client_that_never_agrees_on_keys_is_given_up() {
    let offer = Offer::new();
    let rig = Pair::new(FIRST).rig(&offer);
    let silent = rig.connect();
    let mut half = rig.connect();
    half.write_all(&[0x16, 3, 1, 2]).expect("sent");
    for mut stream in [silent, half] {
        match stream.read_to_end(&mut Vec::new()) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
    }
}

#[test]
fn a_new_certificate_is_used_and_a_bad_one_is_not() {
    let offer = Offer::new();
    let pair = Pair::new(FIRST);
    let (told, notes) = std::sync::mpsc::channel();
    let told = std::sync::Mutex::new(told);
    let rig = Rig::with(&offer.server, |http| {
        let http = http.tls(&pair.certificate, &pair.key);
        http.notices(move |note| drop(told.lock().map(|told| told.send(note.to_owned()))))
    });
    ask(&rig, FIRST_AUTHORITY, &handshake()).expect("a response");
    pair.become_(["nonsense", FIRST[1]]);
    let note = notes.recv_timeout(HANG).expect("a note");
    assert!(note.contains("no certificate"), "{note}");
    ask(&rig, FIRST_AUTHORITY, &handshake()).expect("the old one is good");
    pair.become_(SECOND);
    let begun = Instant::now();
    while ask(&rig, SECOND_AUTHORITY, &handshake()).is_err() {
        assert!(begun.elapsed() < HANG);
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn files_that_cannot_be_used_are_a_reason_not_to_start() {
    let offer = Offer::new();
    let refusal = |pair: &Pair| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let http = offer.server.http().tls(&pair.certificate, &pair.key);
        let refused = runtime.block_on(http.bind("127.0.0.1:0"));
        refused.expect_err("a refusal").to_string()
    };
    let encrypted =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAA==\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let broken = "-----BEGIN CERTIFICATE-----\n???\n-----END CERTIFICATE-----\n";
    for (pair, words) in [
        (["", FIRST[1]], "there is no certificate in"),
        ([broken, FIRST[1]], "is broken"),
        ([FIRST[0], ""], "there is no private key in"),
        ([FIRST[0], encrypted], "is encrypted"),
        ([FIRST[0], SECOND[1]], "is not the one of the certificate"),
    ] {
        let refusal = refusal(&Pair::new(pair));
        assert!(refusal.contains(words), "{refusal}");
    }
    let gone = Pair::new(FIRST);
    fs::remove_file(&gone.key).expect("removed");
    let refusal = refusal(&gone);
    assert!(refusal.contains("cannot read the key"), "{refusal}");
}

#[test]
fn streams_are_encrypted_too() {
    let offer = Offer::new();
    let rig = Pair::new(FIRST).rig(&offer);
    let body = modern_call(1, "gate", json!({})).to_string();
    let headers = modern_headers(&modern_call(1, "gate", json!({})));
    let mut headers = as_strs(&headers);
    headers.push(("Connection", "close"));
    let request = head("POST", &headers, body.len()) + &body;
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| ask(&rig, FIRST_AUTHORITY, &request));
        offer.begun(1);
        offer.open();
        offer.open();
        let response = asking.join().expect("no panic").expect("a response");
        assert!(response.contains("text/event-stream"), "{response}");
        assert!(response.contains("through"), "{response}");
    });
    // Nothing of this has kept the port from others.
    TcpStream::connect(rig.address).expect("a connection");
}
