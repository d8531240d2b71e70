//! A scripted MCP server on standard input and output, with faults to order.
//!
//! It is strict where real servers are: nothing works before the handshake, `initialize` works
//! once, a cancelled handler answers nothing, the end of input ends it at once. So a relay that
//! forgets to replay a handshake, cancels too much or drops its input too early is found out.
//! It speaks both eras: a request whose `_meta` names a protocol version needs no handshake.
//!
//! What goes wrong is chosen by [`knobs`] (from the start) and by calling [`tools`] (now).

mod knobs;
mod output;
mod server;
mod swift;
mod tap;
mod tools;

use std::io::{BufRead, BufReader, Read};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use knobs::Knobs;
use server::Server;
use swift::Swift;

fn main() -> ExitCode {
    let knobs = match Knobs::parse(std::env::args().skip(1)) {
        Ok(knobs) => knobs,
        Err(error) => {
            eprintln!("fake: {error}");
            return ExitCode::from(2);
        }
    };
    if let Some(text) = &knobs.say {
        eprintln!("{text}");
    }
    let server = match Server::new(knobs) {
        Ok(server) => Arc::new(server),
        Err(error) => {
            eprintln!("fake: {error}");
            return ExitCode::from(2);
        }
    };
    if let Some(text) = &server.knobs.banner {
        server.output.raw(format!("{text}\n").as_bytes());
    }
    if let Some(code) = server.knobs.exit_at_start
        && server.knobs.faulty()
    {
        std::process::exit(code);
    }
    if let Some(delay) = server.knobs.start_delay {
        thread::sleep(delay);
    }
    let mut swift = Swift::new(&server.knobs);
    // A swift server takes no more from its input than it needs for the next line or two.
    let room = if swift.is_some() { 256 } else { 8 << 10 };
    let mut input = BufReader::with_capacity(room, Stdin);
    let mut line = Vec::new();
    loop {
        line.clear();
        match input.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        if let Some(swift) = &mut swift
            && swift.take(&server, &line)
        {
            continue;
        }
        while server.is_deaf() {
            thread::sleep(Duration::from_millis(10));
        }
        server.take(&line);
    }
    server.tap.note("eof", serde_json::Value::Null);
    if server.knobs.ignore_eof {
        loop {
            thread::park();
        }
    }
    ExitCode::SUCCESS
}

/// Standard input without the library's own buffer.
struct Stdin;

impl Read for Stdin {
    fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        Ok(rustix::io::read(rustix::stdio::stdin(), room)?)
    }
}
