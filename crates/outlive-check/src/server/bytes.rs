//! Bytes that are no message, or a message in an unusual wrapping (FM-11, FM-57 to FM-60, FM-63).

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use crate::host::{Host, Id};
use crate::measure;
use crate::scenario::{Over, Scenario};
use crate::stage::Stage;
use crate::verdict::{Finding, Held};

use super::{measurable, server};

pub(super) const SCENARIOS: &[Scenario] = &[
    server("invalid-utf8", |stage| Box::pin(invalid_utf8(stage)))
        .says("Bytes that are not UTF-8 cost a line, not the connection.")
        .over(Over::Stdio)
        .fm(&[58]),
    server("garbage-lines", |stage| Box::pin(garbage(stage)))
        .says("Lines that are not JSON are left alone.")
        .over(Over::Stdio)
        .fm(&[11, 63]),
    server("blank-lines", |stage| Box::pin(blank(stage)))
        .says("Lines with nothing on them are left alone.")
        .over(Over::Stdio)
        .fm(&[59]),
    server("crlf", |stage| Box::pin(crlf(stage)))
        .says("Lines that end with CR LF are understood.")
        .over(Over::Stdio)
        .fm(&[59]),
    server("byte-order-mark", |stage| Box::pin(byte_order_mark(stage)))
        .says("A byte order mark before the first message is understood.")
        .over(Over::Stdio)
        .fm(&[59]),
    server("one-byte-at-a-time", |stage| Box::pin(trickle(stage)))
        .says("A message that arrives byte by byte is understood.")
        .over(Over::Stdio)
        .fm(&[57]),
    server("glued-messages", |stage| Box::pin(glued(stage)))
        .says("Messages that arrive in one piece are all answered.")
        .over(Over::Stdio)
        .fm(&[57]),
    server("huge-message", |stage| Box::pin(huge(stage)))
        .says("A request of 8 MiB is answered, if only with an error, and the server serves on.")
        .fm(&[60])
        .seconds(60),
    server("endless-line", |stage| Box::pin(endless_line(stage)))
        .says("A line without end does not fill the server's memory.")
        .over(Over::Stdio)
        .fm(&[60])
        .seconds(60),
    server("deep-nesting", |stage| Box::pin(nesting(stage)))
        .says("A message nested a hundred thousand deep does not end the server.")
        .fm(&[60, 63]),
    server("only-messages-on-stdout", |stage| {
        Box::pin(only_messages(stage))
    })
    .says("A server writes nothing but messages to its output.")
    .must("2025-11-25 basic/transports: stdio")
    .over(Over::Stdio)
    .fm(&[11]),
];

/// Sends pieces that are no message, each followed by a look whether the server still serves.
async fn leaves_alone(stage: &mut Stage, pieces: &[&[u8]], what: &str) -> Held {
    let mut host = stage.ready().await?;
    for piece in pieces {
        let _ = host.raw(piece).await;
    }
    host.serves(&format!("after {what}")).await
}

async fn invalid_utf8(stage: &mut Stage) -> Held {
    let pieces: &[&[u8]] = &[
        b"\xff\xfe\xfd\n",
        // Overlong, half a pair of surrogates, half a letter.
        b"\"\xc0\xaf \xed\xa0\x80 \xe2\x82\"\n",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/\xff\xff\"}\n",
        b"\0\0\0\n",
    ];
    leaves_alone(stage, pieces, "bytes that are not UTF-8").await
}

async fn garbage(stage: &mut Stage) -> Held {
    let pieces: &[&[u8]] = &[
        b"hello\n",
        b"{\n",
        b"}{\n",
        b"\x1b[31mred\x1b[0m\n",
        b"Content-Length: 17\r\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":\n",
    ];
    leaves_alone(stage, pieces, "lines that are not JSON").await
}

async fn blank(stage: &mut Stage) -> Held {
    leaves_alone(stage, &[b"\n\n", b"  \t \n", b"\r\n\n"], "blank lines").await
}

async fn crlf(stage: &mut Stage) -> Held {
    let mut host = stage.ready().await?;
    let id = host.next_id();
    let message = host.message(&id, host.cheapest(), json!({}));
    let _ = host.raw(format!("{message}\r\n")).await;
    host.answer(&id, "a request that ends with CR LF").await?;
    host.serves("after a line with CR LF").await
}

async fn byte_order_mark(stage: &mut Stage) -> Held {
    let mut host = stage.start().await?;
    let _ = host.raw("\u{feff}").await;
    host.handshake().await?;
    host.serves("after a byte order mark").await
}

async fn trickle(stage: &mut Stage) -> Held {
    let mut host = stage.ready().await?;
    let id = host.next_id();
    let params = json!({ "_meta": { "note": "groß, 大きい, 🐘" } });
    let message = format!("{}\n", host.message(&id, host.cheapest(), params));
    for byte in message.as_bytes().chunks(1) {
        let _ = host.raw(byte).await;
        sleep(Duration::from_millis(1)).await;
    }
    host.answer(&id, "a request sent byte by byte").await?;
    host.serves("after a request sent byte by byte").await
}

async fn glued(stage: &mut Stage) -> Held {
    const MESSAGES: usize = 50;
    let mut host = stage.ready().await?;
    let ids: Vec<Id> = (0..MESSAGES).map(|_| host.next_id()).collect();
    let lines = ids
        .iter()
        .map(|id| format!("{}\n", host.message(id, host.cheapest(), json!({}))));
    let piece: String = lines.collect();
    let _ = host.raw(piece).await;
    for (nth, id) in ids.iter().enumerate() {
        host.answer(
            id,
            &format!("request {} of {MESSAGES} in one piece", nth + 1),
        )
        .await?;
    }
    Ok(())
}

async fn huge(stage: &mut Stage) -> Held {
    let mut host = stage.ready().await?;
    let params = json!({ "_meta": { "pad": "x".repeat(8 << 20) } });
    host.ask(host.cheapest(), params, "a request of 8 MiB")
        .await?;
    host.serves("after a request of 8 MiB").await
}

async fn nesting(stage: &mut Stage) -> Held {
    const DEPTH: usize = 100_000;
    let mut host = stage.ready().await?;
    let id = host.next_id();
    let message = host
        .message(&id, host.cheapest(), json!({ "deep": "HERE" }))
        .to_string();
    let nested = format!("{}{}", "[".repeat(DEPTH), "]".repeat(DEPTH));
    let _ = host.raw(message.replace("\"HERE\"", &nested) + "\n").await;
    host.serves("after a message nested deeply").await
}

async fn endless_line(stage: &mut Stage) -> Held {
    /// Three times what generous servers take.
    const SENT: usize = 192 << 20;
    measurable()?;
    let mut host = stage.ready().await?;
    host.serves("at first").await?;
    let before = resident(&mut host);
    let begin = r#"{"jsonrpc":"2.0","id":"endless","method":"ping","params":{"pad":""#;
    let _ = host.raw(begin).await;
    let piece = vec![b'x'; 4 << 20];
    let mut most = before;
    for sent in (0..SENT).step_by(piece.len()) {
        if host.raw(&piece).await.is_err() {
            // It has had enough, which is one way to bound it.
            host.note(format!("no more was taken after {} MiB", sent >> 20));
            break;
        }
        most = most.max(resident(&mut host));
    }
    let grown = most.saturating_sub(before);
    host.note(format!("its memory grew by {} MiB", grown >> 20));
    match grown >= SENT as u64 {
        true => Finding::broken(format!(
            "A line of {} MiB made the server grow by {} MiB.",
            SENT >> 20,
            grown >> 20
        )),
        false => Ok(()),
    }
}

fn resident(host: &mut Host) -> u64 {
    let family = host.process().family();
    family.into_iter().filter_map(measure::resident).sum()
}

async fn only_messages(stage: &mut Stage) -> Held {
    let mut host = stage.ready().await?;
    host.ask("tools/list", json!({}), "tools/list").await?;
    host.serves("at first").await?;
    host.ask("no/such/method", json!({}), "an unknown method")
        .await?;
    if let Ok(busy) = stage.busy() {
        let id = host.call(&busy).await;
        host.linger(Duration::from_millis(300)).await;
        host.cancel(&id).await;
    }
    host.serves("in the end").await?;
    host.linger(Duration::from_millis(200)).await;
    match host.look(|letters| letters.junk.first().cloned()) {
        Some(junk) => Finding::broken(format!("This is no message: {junk}")),
        None => Ok(()),
    }
}
