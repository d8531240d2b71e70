//! TLS: whom we trust, and what is said of those we do not.
//!
//! The certificate in `tls/` is for 127.0.0.1 and outlive.test; the key of the authority that has signed it was thrown
//! away.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;

use crate::rig::{Host, Setup};
use crate::web::Web;

const CERTIFICATE: &[u8] = include_bytes!("tls/server.pem");
const KEY: &[u8] = include_bytes!("tls/server.key");
pub const AUTHORITY: &str = include_str!("tls/ca.pem");

/// The address of an encrypted way to this server.
pub fn encrypted(server: SocketAddr) -> SocketAddr {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE).expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(KEY).expect("a key");
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("a pair");
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let Ok(connection) = ServerConnection::new(config.clone()) else {
                continue;
            };
            let encrypted = StreamOwned::new(connection, stream);
            thread::spawn(move || {
                let plain = TcpStream::connect(server)?;
                let (mut there, mut here) = (BufReader::new(plain), BufReader::new(encrypted));
                loop {
                    let request = message(&mut here)?;
                    there.get_mut().write_all(&request)?;
                    let response = message(&mut there)?;
                    here.get_mut().write_all(&response)?;
                    here.get_mut().flush()?;
                }
                #[allow(unreachable_code)] // It ends with an error, when either side leaves.
                std::io::Result::Ok(())
            });
        }
    });
    address
}

/// A whole request or response.
fn message(from: &mut impl BufRead) -> std::io::Result<Vec<u8>> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if from.read_line(&mut head)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    let length = head.to_lowercase();
    let length = length
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length = length.and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut whole = head.into_bytes();
    from.take(length).read_to_end(&mut whole)?;
    Ok(whole)
}

/// An authority the system does not know is trusted if the user names it, and refused otherwise, with the
/// reason.
#[test]
fn an_authority_of_ones_own() {
    let web = Web::start(|_| None);
    let url = format!("https://{}/mcp", encrypted(web.address()));
    let setup = Setup::new();
    let authority = setup.file("ca.pem", AUTHORITY);
    let setup = setup.flags(&["--ca-file", &authority]);
    let mut host = Host::ready(setup.server(&[&url]));
    host.ask("echo", json!({})).result();

    let before = web.seen().len();
    let mut host = Setup::new()
        .flags(&["--breaker-window", "1s"])
        .server(&[&url])
        .start();
    let id = host.request("initialize", json!({}));
    let answer = host.answer(id);
    answer.refused("unavailable");
    assert!(
        answer.message().contains("certificate"),
        "{}",
        answer.message()
    );
    let stranger = web.seen();
    assert!(
        stranger[before..]
            .iter()
            .all(|request| request.rpc() != "initialize")
    );
}
