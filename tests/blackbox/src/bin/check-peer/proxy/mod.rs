//! A proxy on standard input and output: lines in, lines out.
//!
//! Without a defect its server stands behind `outlive run`, which does the surviving; so it does with a
//! defect of transparency, which is then done to the lines that pass. With a defect of survival it is on
//! its own.

mod lines;

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::defects::Defects;
use lines::Lines;

/// The defects that `outlive run` would make up for.
const ALONE: &[&str] = &[
    "goes-silent-at-death",
    "leaves-server",
    "leaves-stderr",
    "no-restart",
    "passes-junk",
    "restarts-at-once",
    "silent-after-junk",
];

/// Is a proxy for a server until the host leaves.
pub fn main(defects: Defects, server: &[String]) -> ExitCode {
    let alone = ALONE.iter().any(|defect| defects.has(defect));
    let lines = Arc::new(Mutex::new(Lines::new(defects.clone())));
    let child = Arc::new(Mutex::new(start(&defects, server, alone)));
    {
        let (lines, child, defects) = (lines.clone(), child.clone(), defects.clone());
        let server = server.to_vec();
        thread::spawn(move || listen(&defects, &server, &child, &lines));
    }
    for line in BufReader::new(io::stdin())
        .split(b'\n')
        .map_while(Result::ok)
    {
        let onward = lines.lock().expect("lines").host_says(line);
        for line in onward {
            to_server(&child, &line);
        }
    }
    if defects.has("leaves-server") {
        loop {
            thread::park();
        }
    }
    let mut child = child.lock().expect("a child");
    drop(child.stdin.take());
    let _ = child.wait();
    ExitCode::SUCCESS
}

fn start(defects: &Defects, server: &[String], alone: bool) -> Child {
    let outlive = std::env::current_exe()
        .expect("a name")
        .with_file_name("outlive");
    let mut command = match alone {
        true => {
            let mut command = Command::new(&server[0]);
            command.args(&server[1..]);
            command
        }
        false => {
            let mut command = Command::new(outlive);
            let retry = match defects.has("replays-blindly") {
                true => "always",
                false => "safe",
            };
            let flags = ["run", "--drain", "0s", "--retry", retry, "--"];
            command.args(flags).args(server);
            command
        }
    };
    let stderr = match defects.has("leaves-stderr") {
        true => Stdio::piped(),
        false => Stdio::inherit(),
    };
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(stderr)
        .spawn()
        .expect("a server")
}

/// Passes on what the server says, and what its death means.
fn listen(defects: &Defects, server: &[String], child: &Mutex<Child>, lines: &Mutex<Lines>) {
    loop {
        let stdout = child.lock().expect("a child").stdout.take();
        let mut reader = BufReader::new(stdout.expect("an output"));
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            line.pop();
            let onward = lines
                .lock()
                .expect("lines")
                .server_says(std::mem::take(&mut line));
            for line in onward {
                if to_host(&line).is_err() && !defects.has("leaves-server") {
                    std::process::exit(0);
                }
            }
        }
        if defects.has("restarts-at-once") {
            let mut again = start(defects, server, true);
            // So that it has a reason to die.
            let hello = lines.lock().expect("lines").handshake();
            if let Some(stdin) = &mut again.stdin {
                let _ = stdin.write_all(&hello);
            }
            *child.lock().expect("a child") = again;
            continue;
        }
        if defects.has("goes-silent-at-death") {
            loop {
                thread::park();
            }
        }
        if defects.has("no-restart") {
            loop {
                thread::sleep(Duration::from_millis(20));
                let pending = lines.lock().expect("lines").pending();
                for id in pending {
                    refuse(&id);
                }
            }
        }
        if defects.has("leaves-server") {
            return;
        }
        std::process::exit(0);
    }
}

fn refuse(id: &Value) {
    let error = json!({ "code": -31001, "message": "the server is gone" });
    let answer = json!({ "jsonrpc": "2.0", "id": id, "error": error });
    if to_host(answer.to_string().as_bytes()).is_err() {
        std::process::exit(0);
    }
}

fn to_server(child: &Mutex<Child>, line: &[u8]) {
    let mut child = child.lock().expect("a child");
    if let Some(stdin) = &mut child.stdin {
        let written = stdin.write_all(line).and_then(|()| stdin.write_all(b"\n"));
        let _ = written.and_then(|()| stdin.flush());
    }
}

fn to_host(line: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(line)?;
    stdout.write_all(b"\n")?;
    stdout.flush()
}
