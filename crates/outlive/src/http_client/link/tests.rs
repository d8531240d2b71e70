//! A link and a server of few words, over real sockets: what is ordered is done, and what happens is told.

use std::future::poll_fn;
use std::task::Poll;

use outlive_core::link::{RequestFailure, Resend};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::driver::upstream::Upstream;
use crate::http_client::{Remote, Sessions};

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
const ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;

async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/a", listener.local_addr().unwrap());
    (listener, url)
}

fn link_to(remote: Remote) -> HttpLink {
    Sessions::new(remote, 1 << 20)
        .connect(Generation::FIRST)
        .unwrap()
}

fn message(line: &'static str) -> Message {
    Message::read(line.into()).unwrap()
}

fn call(link: &mut HttpLink) {
    link.send(message(CALL));
}

/// The next thing the link tells.
async fn told(link: &mut HttpLink) -> LinkInput {
    poll_fn(|cx| {
        link.flush(cx).unwrap();
        while link.ready.is_empty() {
            if link.poll_read(cx, Look::Usual).is_pending() {
                return Poll::Pending;
            }
            assert!(!link.ended, "it has ended");
        }
        Poll::Ready(link.next_input().expect("there is one"))
    })
    .await
}

/// Drives the link until something else is done.
async fn beside<T>(link: &mut HttpLink, other: impl Future<Output = T>) -> T {
    let mut other = Box::pin(other);
    poll_fn(|cx| {
        link.flush(cx).unwrap();
        while link.ready.is_empty() && link.poll_read(cx, Look::Usual).is_ready() && !link.ended {}
        other.as_mut().poll(cx)
    })
    .await
}

/// The next request that comes, with its body, and where to answer it.
async fn taken(listener: &TcpListener) -> (String, TcpStream) {
    let (mut stream, _) = listener.accept().await.unwrap();
    (request(&mut stream).await, stream)
}

async fn request(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    loop {
        text.push(stream.read_u8().await.unwrap());
        let Some(head) = text.windows(4).position(|end| end == b"\r\n\r\n") else {
            continue;
        };
        let lower = String::from_utf8_lossy(&text).to_lowercase();
        let length = lower.split("content-length: ").nth(1);
        let length = length.map_or(0, |it| it.split('\r').next().unwrap().parse().unwrap());
        if text.len() == head + 4 + length {
            return String::from_utf8(text).unwrap();
        }
    }
}

async fn reply(stream: &mut TcpStream, status: &str, headers: &str, body: &str) {
    let length = body.len();
    let text = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{headers}\r\n{body}");
    stream.write_all(text.as_bytes()).await.unwrap();
}

fn is_answer(input: &LinkInput) -> bool {
    matches!(input, LinkInput::Frame(_))
}

#[tokio::test]
async fn an_answer_comes_back_as_it_was_written() {
    let (listener, url) = listen().await;
    let mut link = link_to(Remote::new(&url));
    call(&mut link);
    let (request, mut stream) = beside(&mut link, taken(&listener)).await;
    assert!(request.starts_with("POST /a HTTP/1.1\r\n"), "{request}");
    assert!(request.ends_with(CALL), "{request}");
    reply(
        &mut stream,
        "200 OK",
        "content-type: application/json\r\n",
        ANSWER,
    )
    .await;
    let input = told(&mut link).await;
    assert!(is_answer(&input), "{input:?}");
    assert_eq!(link.rules.under_way(), 0);
    assert!(link.running.is_empty());
}

#[tokio::test]
async fn where_nobody_listens_a_request_is_unsent() {
    let (listener, url) = listen().await;
    drop(listener);
    let mut link = link_to(Remote::new(&url));
    call(&mut link);
    let input = told(&mut link).await;
    let LinkInput::Unanswered { failure, .. } = input else {
        panic!("{input:?}");
    };
    assert!(matches!(failure, RequestFailure::Unsent(_)), "{failure:?}");
}

#[tokio::test]
async fn a_connection_that_breaks_may_have_cost_an_execution() {
    let (listener, url) = listen().await;
    let mut link = link_to(Remote::new(&url));
    call(&mut link);
    drop(beside(&mut link, taken(&listener)).await);
    let input = told(&mut link).await;
    let LinkInput::Unanswered { failure, .. } = input else {
        panic!("{input:?}");
    };
    assert!(matches!(failure, RequestFailure::Lost(_)), "{failure:?}");
}

#[tokio::test]
async fn what_was_redirected_leaves_again_when_the_session_says_so() {
    let (listener, url) = listen().await;
    let mut link = link_to(Remote::new(&url));
    call(&mut link);
    let (_, mut stream) = beside(&mut link, taken(&listener)).await;
    reply(&mut stream, "307 Moved", "location: /b\r\n", "").await;
    let input = told(&mut link).await;
    let LinkInput::Unexecuted { id, why } = input else {
        panic!("{input:?}");
    };
    assert_eq!(why, Resend::Redirected);
    assert_eq!(link.rules.under_way(), 0, "nothing leaves before that");
    link.resend(id, true);
    // On the same connection or another one.
    let again = async {
        tokio::select! {
            text = request(&mut stream) => text,
            (text, _) = taken(&listener) => text,
        }
    };
    let again = beside(&mut link, again).await;
    assert!(again.starts_with("POST /b HTTP/1.1\r\n"), "{again}");
}

#[tokio::test]
async fn other_credentials_are_obtained_and_sent() {
    let (listener, url) = listen().await;
    let remote = Remote::new(&url).credentials(|_| async { Some("Bearer hunter66".to_string()) });
    let mut link = link_to(remote);
    call(&mut link);
    let (first, mut stream) = beside(&mut link, taken(&listener)).await;
    assert!(!first.to_lowercase().contains("authorization"), "{first}");
    reply(&mut stream, "401 x", "connection: close\r\n", "").await;
    let input = told(&mut link).await;
    assert!(
        matches!(input, LinkInput::Challenged { id: Id::Int(1) }),
        "{input:?}"
    );
    let input = told(&mut link).await;
    let LinkInput::Unexecuted { id, why } = input else {
        panic!("{input:?}");
    };
    assert_eq!(why, Resend::Credentials);
    link.resend(id, true);
    let (second, _) = beside(&mut link, taken(&listener)).await;
    assert!(second.contains("Bearer hunter66"), "{second}");
}

#[tokio::test]
async fn a_request_that_is_given_up_closes_its_connection() {
    let (listener, url) = listen().await;
    let mut link = link_to(Remote::new(&url));
    call(&mut link);
    let (_, mut stream) = beside(&mut link, taken(&listener)).await;
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    link.send(message(cancel));
    let end = beside(&mut link, stream.read_u8()).await;
    assert!(end.is_err(), "the stream of a modern request says it all");
}

#[tokio::test]
async fn a_link_that_is_killed_has_ended_and_sends_nothing() {
    let (listener, url) = listen().await;
    let mut link = link_to(Remote::new(&url));
    call(&mut link);
    let (_, mut stream) = beside(&mut link, taken(&listener)).await;
    link.order(LinkOrder::Kill);
    assert!(link.has_ended());
    assert!(stream.read_u8().await.is_err());
    call(&mut link);
    assert_eq!(link.rules.under_way(), 0);
}

/// What a server has taken is noted while it is not read: others may wait for it.
#[tokio::test]
async fn a_notification_is_taken_while_nobody_reads() {
    let (listener, url) = listen().await;
    let mut link = link_to(Remote::new(&url));
    let note = r#"{"jsonrpc":"2.0","method":"notifications/x"}"#;
    link.send(message(note));
    assert!(link.backlog() > 0);
    let accept = async {
        let (_, mut stream) = taken(&listener).await;
        reply(&mut stream, "202 Accepted", "", "").await;
        stream
    };
    let mut accept = Box::pin(accept);
    let mut stream = None;
    poll_fn(|cx| {
        link.flush(cx).unwrap();
        if stream.is_none()
            && let Poll::Ready(done) = accept.as_mut().poll(cx)
        {
            stream = Some(done);
        }
        match link.backlog() {
            0 => Poll::Ready(()),
            _ => Poll::Pending,
        }
    })
    .await;
}
