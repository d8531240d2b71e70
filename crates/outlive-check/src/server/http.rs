//! Clients over HTTP that vanish, dawdle, or come from where they should not (FM-20, FM-30, FM-63,
//! FM-72, FM-73).

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::Era;
use crate::host::Host;
use crate::scenario::{Over, Scenario};
use crate::stage::Stage;
use crate::verdict::{Finding, Held};
use crate::web::{Headers, Reply};

use super::server;

const ORIGIN: &str = "2025-11-25 basic/transports: Security Warning";
const SENDING: &str = "2025-11-25 basic/transports: Sending Messages to the Server";
const LISTENING: &str = "2025-11-25 basic/transports: Listening for Messages from the Server";
const VERSION: &str = "2025-11-25 basic/transports: Protocol Version Header";
const MIRRORED: &str = "2026-07-28 basic/transports/streamable-http: Server Validation";
const METHODS: &str = "2026-07-28 basic/transports/streamable-http: Protocol Version Header";
const BUFFERING: &str = "2026-07-28 basic/transports/streamable-http: Receiving Messages";

pub(super) const SCENARIOS: &[Scenario] = &[
    server("client-vanishes-mid-call", |stage| {
        Box::pin(vanishes(stage))
    })
    .says("Clients whose connections break while their calls run are no harm to the others.")
    .over(Over::Http)
    .fm(&[20]),
    server("body-cut-off", |stage| Box::pin(cut_off(stage)))
        .says("A client that leaves in the middle of a request is no harm to the others.")
        .over(Over::Http)
        .fm(&[20]),
    server("body-slow", |stage| Box::pin(slow_body(stage)))
        .says("A body that arrives slowly is answered, and others are answered meanwhile.")
        .over(Over::Http)
        .fm(&[30]),
    server("heads-unfinished", |stage| {
        Box::pin(unfinished_heads(stage))
    })
    .says("Connections that send no whole request do not keep others out.")
    .over(Over::Http)
    .fm(&[30]),
    server("answers-unread", |stage| Box::pin(unread(stage)))
        .says("Clients that do not read their answers do not keep others from theirs.")
        .over(Over::Http)
        .fm(&[30]),
    server("body-malformed", |stage| Box::pin(malformed(stage)))
        .says("A body that is no message is refused with a status of 400 to 499.")
        .must(SENDING)
        .over(Over::Http)
        .fm(&[63]),
    server("headers-odd", |stage| Box::pin(odd_headers(stage)))
        .says("Odd headers and methods are no failure of the server: no status of 500 or above.")
        .over(Over::Http)
        .fm(&[63]),
    server("notification-accepted", |stage| Box::pin(accepted(stage)))
        .says("A notification is answered with 202 and no body.")
        .must(SENDING)
        .over(Over::Http)
        .era(Era::Legacy)
        .fm(&[52]),
    server("origin-foreign", |stage| Box::pin(foreign_origin(stage)))
        .says("A request of a page from elsewhere is refused with 403.")
        .must(ORIGIN)
        .over(Over::Http)
        .fm(&[72]),
    server("get-is-a-stream-or-405", |stage| Box::pin(get(stage)))
        .says("GET is answered with a stream of events or with 405.")
        .must(LISTENING)
        .over(Over::Http)
        .era(Era::Legacy)
        .fm(&[25, 71]),
    server("version-header-unknown", |stage| {
        Box::pin(version_header(stage))
    })
    .says("A version in the header that the server does not know is refused with 400.")
    .must(VERSION)
    .over(Over::Http)
    .era(Era::Legacy)
    .fm(&[44]),
    server("header-contradicts-body", |stage| {
        Box::pin(contradiction(stage))
    })
    .says("A header that contradicts the body is refused with 400 and -32020.")
    .must(MIRRORED)
    .over(Over::Http)
    .era(Era::Modern)
    .fm(&[45]),
    server("unknown-method-is-404", |stage| {
        Box::pin(unknown_method(stage))
    })
    .says("A method the server does not know is refused with 404 and -32601.")
    .must(METHODS)
    .over(Over::Http)
    .era(Era::Modern)
    .fm(&[44]),
    server("stream-unbuffered", |stage| Box::pin(unbuffered(stage)))
        .says("A stream tells proxies not to buffer it: X-Accel-Buffering: no.")
        .should(BUFFERING)
        .over(Over::Http)
        .fm(&[73]),
];

/// What an exchange came to, or what went wrong with it.
pub(super) async fn exchange(
    host: &mut Host,
    method: &str,
    headers: &Headers,
    body: &[u8],
    what: &str,
) -> Result<Reply, Finding> {
    let reply = host.web().exchange(method, headers, body).await;
    reply.map_err(|error| Finding::Broken(format!("{what} was not answered: {error}.")))
}

/// A cheap request and the headers that go with it.
pub(super) fn cheap(host: &mut Host) -> (Value, Headers) {
    let id = host.next_id();
    let message = host.message(&id, host.cheapest(), json!({}));
    let headers = host.web().headers(&message);
    (message, headers)
}

async fn text(reply: &mut Reply, timeout: Duration) -> String {
    let read = tokio::time::timeout(timeout, reply.text()).await;
    read.ok().and_then(Result::ok).unwrap_or_default()
}

/// A request of the host's, on a connection of its own, without waiting for an answer.
async fn thrown(host: &mut Host, message: &Value) -> Option<TcpStream> {
    let web = host.web();
    let bytes = web.bytes(
        "POST",
        &web.headers(message),
        message.to_string().as_bytes(),
    );
    let mut stream = web.connect().await.ok()?;
    stream.write_all(&bytes).await.ok()?;
    Some(stream)
}

/// Ends a connection with a reset.
fn reset(stream: TcpStream) {
    let _ = stream.set_zero_linger();
}

async fn vanishes(stage: &mut Stage) -> Held {
    const CLIENTS: usize = 20;
    let busy = stage.busy()?;
    let mut host = stage.ready().await?;
    let mut streams = Vec::new();
    for _ in 0..CLIENTS {
        let id = host.next_id();
        let mut params = busy.params();
        params["_meta"] = json!({ "progressToken": id.0 });
        let message = host.message(&id, "tools/call", params);
        streams.extend(thrown(&mut host, &message).await);
    }
    host.linger(stage.random.moment(Duration::from_millis(200)))
        .await;
    host.note(format!("connections to be reset: {}", streams.len()));
    streams.into_iter().for_each(reset);
    let mut other = stage.ready().await?;
    other.serves("after other clients vanished").await?;
    host.serves("after its connections broke").await?;
    // What was called has its answer by now, and nobody to give it to.
    host.linger(Duration::from_secs(3)).await;
    other
        .serves("after the calls of vanished clients ended")
        .await
}

async fn cut_off(stage: &mut Stage) -> Held {
    let mut host = stage.ready().await?;
    for polite in [true, false] {
        let (message, headers) = cheap(&mut host);
        let bytes = host
            .web()
            .bytes("POST", &headers, message.to_string().as_bytes());
        for cut in [bytes.len() / 3, bytes.len() - 10] {
            let Ok(mut stream) = host.web().connect().await else {
                continue;
            };
            let _ = stream.write_all(&bytes[..cut]).await;
            sleep(Duration::from_millis(20)).await;
            match polite {
                true => drop(stream),
                false => reset(stream),
            }
        }
    }
    host.serves("after requests that were cut off").await
}

async fn slow_body(stage: &mut Stage) -> Held {
    let mut host = stage.ready().await?;
    let (message, headers) = cheap(&mut host);
    let bytes = host
        .web()
        .bytes("POST", &headers, message.to_string().as_bytes());
    let failed = |error: std::io::Error| Finding::Broken(format!("The connection broke: {error}."));
    let mut stream = host.web().connect().await.map_err(failed)?;
    let (first, rest) = bytes.split_at(bytes.len() / 2);
    stream.write_all(first).await.map_err(failed)?;
    for byte in rest.chunks(4) {
        sleep(Duration::from_millis(20)).await;
        stream.write_all(byte).await.map_err(failed)?;
    }
    host.serves("while another body has arrived slowly").await?;
    let timeout = host.timeout();
    match tokio::time::timeout(timeout, Reply::head(stream)).await {
        Ok(Ok(reply)) if reply.status < 300 => Ok(()),
        Ok(Ok(reply)) => Finding::broken(format!("A slow body was refused with {}.", reply.status)),
        Ok(Err(error)) => Finding::broken(format!("A slow body was not answered: {error}.")),
        Err(_) => Finding::broken(format!("A slow body was not answered within {timeout:?}.")),
    }
}

async fn unfinished_heads(stage: &mut Stage) -> Held {
    const CLIENTS: usize = 40;
    let mut host = stage.ready().await?;
    let mut streams = Vec::new();
    for _ in 0..CLIENTS {
        if let Ok(mut stream) = host.web().connect().await {
            let _ = stream.write_all(b"POST /mcp HTTP/1.1\r\nHost: ").await;
            streams.push(stream);
        }
    }
    host.serves("while others send half a head").await
}

async fn unread(stage: &mut Stage) -> Held {
    const REQUESTS: usize = 40;
    let mut host = stage.ready().await?;
    let mut streams = Vec::new();
    for _ in 0..REQUESTS {
        let id = host.next_id();
        let message = host.message(&id, "tools/list", json!({}));
        streams.extend(thrown(&mut host, &message).await);
    }
    host.serves("while answers are left unread").await?;
    let mut other = stage.ready().await?;
    other
        .serves("while another client's answers are left unread")
        .await
}

async fn malformed(stage: &mut Stage) -> Held {
    let mut host = stage.ready().await?;
    let (_, headers) = cheap(&mut host);
    for body in [
        &b""[..],
        b"{",
        b"hello",
        b"17",
        b"\xff\xfe",
        b"{\"jsonrpc\":\"2.0\"}",
    ] {
        let what = format!("A body of {:?}", String::from_utf8_lossy(body));
        let reply = exchange(&mut host, "POST", &headers, body, &what).await?;
        if !(400..500).contains(&reply.status) {
            return Finding::broken(format!("{what} was answered with status {}.", reply.status));
        }
    }
    host.serves("after bodies that are no message").await
}

async fn odd_headers(stage: &mut Stage) -> Held {
    let mut host = stage.ready().await?;
    let (message, usual) = cheap(&mut host);
    let body = message.to_string().into_bytes();
    let with = |name: &str, value: &str| -> Headers {
        let others = usual.iter().filter(|(other, _)| other != name).cloned();
        others
            .chain([(name.to_owned(), value.to_owned())])
            .collect()
    };
    let odd = [
        ("POST", with("Content-Type", "text/plain")),
        (
            "POST",
            with("Content-Type", "application/json; charset=utf-16"),
        ),
        ("POST", with("Accept", "image/png")),
        ("POST", with("Accept", "")),
        ("POST", with("X-Long", &"x".repeat(20_000))),
        ("PUT", usual.clone()),
        ("PATCH", usual.clone()),
        ("BREW", usual.clone()),
    ];
    for (method, headers) in odd {
        let last = headers
            .last()
            .map(|(name, value)| format!("{name}: {}", &value[..value.len().min(40)]));
        let what = format!("{method} with {}", last.unwrap_or_default());
        let reply = exchange(&mut host, method, &headers, &body, &what).await?;
        // 501 says that a method is not known, which is true.
        if reply.status >= 500 && reply.status != 501 {
            return Finding::broken(format!("{what} was answered with status {}.", reply.status));
        }
    }
    host.serves("after odd requests").await
}

async fn accepted(stage: &mut Stage) -> Held {
    let mut host = stage.ready().await?;
    let message = json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" });
    let headers = host.web().headers(&message);
    let body = message.to_string();
    let what = "A notification";
    let mut reply = exchange(&mut host, "POST", &headers, body.as_bytes(), what).await?;
    let words = text(&mut reply, host.timeout()).await;
    match (reply.status, words.is_empty()) {
        (202, true) => Ok(()),
        (202, false) => {
            Finding::broken(format!("A notification was answered with a body: {words}"))
        }
        (status, _) => {
            Finding::broken(format!("A notification was answered with status {status}."))
        }
    }
}

async fn foreign_origin(stage: &mut Stage) -> Held {
    let mut host = stage.ready().await?;
    let (message, mut headers) = cheap(&mut host);
    headers.push(("Origin".into(), "http://elsewhere.example".into()));
    let body = message.to_string();
    let what = "A request of a page from elsewhere";
    let reply = exchange(&mut host, "POST", &headers, body.as_bytes(), what).await?;
    if reply.status != 403 {
        return Finding::broken(format!("{what} was answered with status {}.", reply.status));
    }
    host.serves("after a page from elsewhere was refused").await
}

async fn get(stage: &mut Stage) -> Held {
    let mut host = stage.ready().await?;
    let (_, mut headers) = cheap(&mut host);
    headers.retain(|(name, _)| !name.starts_with("Accept") && !name.starts_with("Content"));
    headers.push(("Accept".into(), "text/event-stream".into()));
    // A client that lost its stream opens it again, and the server may not have noticed the loss.
    for nth in 1..=3 {
        let what = format!("GET, for the {nth}. time,");
        let reply = exchange(&mut host, "GET", &headers, b"", &what).await?;
        let streams = reply.status == 200 && reply.is_stream();
        // 409: there is a stream already, which is no answer to the first.
        let taken = reply.status == 409 && nth > 1;
        if !(streams || reply.status == 405 || taken) {
            return Finding::broken(format!("{what} was answered with {}.", reply.words()));
        }
        reset(reply.into_stream());
    }
    host.serves("after a stream was opened and broken").await
}

async fn version_header(stage: &mut Stage) -> Held {
    let mut host = stage.ready().await?;
    let (message, mut headers) = cheap(&mut host);
    headers.retain(|(name, _)| name != "MCP-Protocol-Version");
    headers.push(("MCP-Protocol-Version".into(), "1999-12-31".into()));
    let body = message.to_string();
    let what = "A request with an unknown version in its header";
    let reply = exchange(&mut host, "POST", &headers, body.as_bytes(), what).await?;
    if reply.status != 400 {
        return Finding::broken(format!("{what} was answered with status {}.", reply.status));
    }
    host.serves("after an unknown version").await
}

async fn contradiction(stage: &mut Stage) -> Held {
    let mut host = stage.ready().await?;
    let (message, mut headers) = cheap(&mut host);
    headers.retain(|(name, _)| name != "Mcp-Method");
    headers.push(("Mcp-Method".into(), "tools/call".into()));
    refused(&mut host, &message, &headers, 400, -32020).await?;
    host.serves("after a header that contradicts its body")
        .await
}

async fn unknown_method(stage: &mut Stage) -> Held {
    let mut host = stage.ready().await?;
    let id = host.next_id();
    let message = host.message(&id, "no/such/method", json!({}));
    let headers = host.web().headers(&message);
    refused(&mut host, &message, &headers, 404, -32601).await?;
    host.serves("after an unknown method").await
}

async fn refused(
    host: &mut Host,
    message: &Value,
    headers: &Headers,
    status: u16,
    code: i64,
) -> Held {
    let body = message.to_string();
    let mut reply = exchange(host, "POST", headers, body.as_bytes(), "The request").await?;
    let words = text(&mut reply, host.timeout()).await;
    let error = serde_json::from_str::<Value>(&words).unwrap_or_default();
    match reply.status == status && error["error"]["code"] == code {
        true => Ok(()),
        false => Finding::broken(format!(
            "It was answered with status {} and {words}",
            reply.status
        )),
    }
}

async fn unbuffered(stage: &mut Stage) -> Held {
    let busy = stage.busy()?;
    let mut host = stage.ready().await?;
    let id = host.next_id();
    let mut params = busy.params();
    params["_meta"] = json!({ "progressToken": 1 });
    let message = host.message(&id, "tools/call", params);
    let headers = host.web().headers(&message);
    let body = message.to_string();
    let reply = exchange(&mut host, "POST", &headers, body.as_bytes(), "A call").await?;
    if !reply.is_stream() {
        return Finding::not_applicable("the server answered without a stream");
    }
    match reply.header("X-Accel-Buffering") {
        Some("no") => Ok(()),
        _ => Finding::broken("The stream has no header X-Accel-Buffering: no."),
    }
}
