//! How long a call takes in the core alone: framed, read, passed on, answered, passed back.

use std::hint::black_box;
use std::time::Instant;

use outlive_core::{Framer, Generation, Input, LinkInput, Output, Policy, Session, Time};

const IN_FLIGHT: usize = 64;
const ROUNDS: usize = 20_000;

fn main() {
    let mut session = Session::new(Policy::default(), 1);
    let (mut host, mut server) = (Framer::new(1 << 20), Framer::new(1 << 20));
    let link = Generation::FIRST;
    let greet = [
        Input::Start,
        Input::Link(link, LinkInput::Up),
        line(
            &mut host,
            br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#,
            Input::Host,
        ),
        line(
            &mut server,
            br#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"x"}}"#,
            |frame| Input::Link(link, LinkInput::Frame(frame)),
        ),
    ];
    for input in greet {
        session.handle(Time::ZERO, input);
        while session.poll().is_some() {}
    }
    let text = "x".repeat(100);
    let mut requests = Vec::new();
    let mut answers = Vec::new();
    for id in 1..=IN_FLIGHT {
        requests.extend(
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"{text}"}}}}}}"#)
                .bytes()
                .chain([b'\n']),
        );
        answers.extend(
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"{text}"}}]}}}}"#)
                .bytes()
                .chain([b'\n']),
        );
    }
    let begun = Instant::now();
    let mut bytes = 0;
    for _ in 0..ROUNDS {
        host.spare().extend_from_slice(&requests);
        while let Some(frame) = host.next_frame() {
            session.handle(Time::ZERO, Input::Host(frame));
            bytes += drain(&mut session);
        }
        server.spare().extend_from_slice(&answers);
        while let Some(frame) = server.next_frame() {
            session.handle(Time::ZERO, Input::Link(link, LinkInput::Frame(frame)));
            bytes += drain(&mut session);
        }
    }
    black_box(bytes);
    let each = begun.elapsed() / (ROUNDS * IN_FLIGHT) as u32;
    println!("{each:?} per call, {IN_FLIGHT} in flight");
}

fn line(framer: &mut Framer, text: &[u8], input: impl Fn(outlive_core::Frame) -> Input) -> Input {
    framer.extend(text);
    framer.extend(b"\n");
    input(framer.next_frame().expect("a line"))
}

fn drain(session: &mut Session) -> usize {
    let mut bytes = 0;
    while let Some(output) = session.poll() {
        if let Output::ToHost(message) | Output::ToLink(_, message) = output {
            bytes += message.bytes().len();
        }
    }
    bytes
}
