//! How long the byte layer takes per message: `cargo run --release --example reading_speed`.
//!
//! Each line is the best of several rounds, so that a busy machine shows less.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use outlive_core::framer::Framer;
use outlive_core::message::Message;

const ROUNDS: usize = 15;
const ROUND: Duration = Duration::from_millis(40);

fn main() {
    let call = r#"{"jsonrpc":"2.0","id":1234,"method":"tools/call","params":{"name":"echo","arguments":{"text":"the quick brown fox"},"_meta":{"progressToken":1234}}}"#;
    let answer = |payload: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":7,"result":{{"content":[{{"type":"text","text":{payload}}}]}}}}"#
        )
    };
    let plain = format!("\"{}\"", "x".repeat(1 << 20));
    let log = "2026-11-15 12:00:00 INFO request \\\"GET /index.html\\\" took 12 ms\\n";
    let escaped = format!("\"{}\"", log.repeat((1 << 20) / log.len()));
    let foreign = format!("\"{}\"", "日本語テキスト ".repeat((1 << 20) / 22));
    let row = r#"{"id":48151,"name":"row","ok":true,"tags":["a","bc"],"at":{"x":1.5,"y":-2}}"#;
    let rows = format!("[{}]", vec![row; (1 << 20) / row.len()].join(","));
    let pretty = rows.replace(',', ",  ").replace(":", ": ");
    let arrays = format!("[{}]", vec!["[1,2,3]"; (1 << 20) / 8].join(","));

    for (name, line) in [
        ("a call of 150 bytes", call.to_owned()),
        ("1 MB, one plain string", answer(&plain)),
        ("1 MB, one string with escapes", answer(&escaped)),
        ("1 MB, one string beyond ASCII", answer(&foreign)),
        ("1 MB, many small objects", answer(&rows)),
        ("1 MB, the same with spaces", answer(&pretty)),
        ("1 MB, many small arrays", answer(&arrays)),
    ] {
        let line = Bytes::from(line);
        let read = best(|| {
            let _ = black_box(Message::read(black_box(line.clone())).is_ok());
        });
        let framed = best_framed(&line);
        let speed = |time: f64| line.len() as f64 / time;
        println!(
            "{name:32} {:9} B   read {read:10.0} ns {:6.2} GB/s   framed and read {framed:10.0} ns {:6.2} GB/s",
            line.len(),
            speed(read),
            speed(framed),
        );
    }
}

/// The stream is handed over as a pipe would: 64 KiB at a time, one copy included.
fn best_framed(line: &[u8]) -> f64 {
    let repeat = (1 << 20) / line.len() + 2;
    let stream = [line, b"\n"].concat().repeat(repeat);
    let mut framer = Framer::new(64 << 20);
    // A driver has messages on their way out while it reads on.
    let mut held = [const { None }; 4];
    let time = best(|| {
        for chunk in stream.chunks(64 << 10) {
            framer.spare().extend_from_slice(chunk);
            while let Some(frame) = framer.next_frame() {
                held.rotate_left(1);
                held[0] = Some(frame);
            }
        }
    });
    time / repeat as f64
}

/// Nanoseconds a call takes, in the best round.
fn best(mut call: impl FnMut()) -> f64 {
    let round = |call: &mut dyn FnMut()| {
        let start = Instant::now();
        let mut calls = 0;
        while start.elapsed() < ROUND {
            for _ in 0..4 {
                call();
            }
            calls += 4;
        }
        start.elapsed().as_nanos() as f64 / f64::from(calls)
    };
    (0..ROUNDS)
        .map(|_| round(&mut call))
        .fold(f64::INFINITY, f64::min)
}
