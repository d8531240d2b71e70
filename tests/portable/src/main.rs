//! A small MCP server on standard input and output, with faults to order, that uses nothing of any system's.
//!
//! | argument | what it does |
//! |---|---|
//! | `--exit N` | exits with this code at once |
//! | `--broken FILE` | exits with code 3 at once while there is such a file; else it is a server |
//! | `--sleep` | is no server: does nothing until it is killed |
//! | `--words …` | `words` tells what follows |

use std::io::{BufRead, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

/// Long enough that nobody waits for it.
const FOREVER: Duration = Duration::from_secs(3600);

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some("--exit") => {
            eprintln!("no luck today");
            std::process::exit(words[1].parse().unwrap_or(1));
        }
        Some("--sleep") => std::thread::sleep(FOREVER),
        Some("--broken") if Path::new(&words[1]).exists() => {
            eprintln!("broken again");
            std::process::exit(3);
        }
        _ => serve(&words),
    }
}

fn serve(words: &[String]) {
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let Ok(message) = serde_json::from_str::<Value>(&line) else {
            continue;
        };
        let Some(id) = message.get("id").cloned() else {
            continue;
        };
        let result = match message["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": { "tools": {}, "logging": {} },
                "serverInfo": { "name": "portable", "version": "1" },
            }),
            Some("ping") => json!({}),
            Some("tools/list") => json!({ "tools": tools() }),
            Some("tools/call") => {
                let (name, arguments) =
                    (&message["params"]["name"], &message["params"]["arguments"]);
                let name = name.as_str().unwrap_or_default().to_owned();
                if name == "slow" || name == "safe" {
                    let pause = Duration::from_millis(arguments["ms"].as_u64().unwrap_or(0));
                    std::thread::spawn(move || {
                        std::thread::sleep(pause);
                        answer(&id, &text("slept"));
                    });
                    continue;
                }
                text(&call(&name, arguments, words))
            }
            _ => {
                say(
                    &json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": "no" } }),
                );
                continue;
            }
        };
        answer(&id, &result);
    }
}

fn tools() -> Vec<Value> {
    let tool = |name: &&str| {
        let safe = *name == "safe";
        json!({
            "name": name,
            "inputSchema": { "type": "object" },
            "annotations": { "readOnlyHint": safe, "idempotentHint": safe },
        })
    };
    let names = [
        "echo", "pid", "words", "exit", "crash", "hang", "junk", "child", "slow", "safe", "flood",
    ];
    names.iter().map(tool).collect()
}

fn call(name: &str, arguments: &Value, words: &[String]) -> String {
    match name {
        "echo" => arguments["text"].as_str().unwrap_or_default().to_owned(),
        "pid" => std::process::id().to_string(),
        "words" => json!(words).to_string(),
        "exit" => std::process::exit(arguments["code"].as_i64().unwrap_or(0) as i32),
        "crash" => crash(),
        "hang" => {
            std::thread::sleep(FOREVER);
            String::new()
        }
        "junk" => {
            for line in [
                "Starting up…",
                "",
                "{\"not\": \"a message\"}",
                "\u{feff}[1,",
            ] {
                let mut stdout = std::io::stdout().lock();
                // Whoever does not read it does not hear it.
                let _ = writeln!(stdout, "{line}").and_then(|()| stdout.write_all(b"\xff\xfe\n"));
            }
            "said it".into()
        }
        "child" => {
            let this = std::env::current_exe().expect("its own name");
            let mut child = Command::new(this);
            let child = child.arg("--sleep").stdin(Stdio::null());
            let child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            child.expect("a child").id().to_string()
        }
        "flood" => {
            let (count, size) = (&arguments["count"], &arguments["size"]);
            let text = "f".repeat(size.as_u64().unwrap_or(0) as usize);
            let told = arguments["told"].as_str().unwrap_or_default();
            for nth in 1..=count.as_u64().unwrap_or(0) {
                let params = json!({ "level": "info", "data": { "nth": nth, "text": text } });
                say(
                    &json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": params }),
                );
                // Whoever looks while it is written sees nothing, and looks again.
                let _ = std::fs::write(told, nth.to_string());
            }
            "said it all".into()
        }
        _ => "no such tool".into(),
    }
}

/// Writes to where nothing is.
fn crash() -> ! {
    // SAFETY: it is not safe; that is what it is for. The system ends the process.
    #[allow(clippy::zero_ptr, reason = "the optimiser must not see it coming")]
    unsafe {
        std::ptr::with_exposed_provenance_mut::<u8>(std::hint::black_box(8)).write_volatile(1);
    }
    std::process::exit(99)
}

fn text(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

fn answer(id: &Value, result: &Value) {
    say(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
}

fn say(message: &Value) {
    let mut stdout = std::io::stdout().lock();
    // Whoever does not read it does not hear it.
    let _ = writeln!(stdout, "{message}").and_then(|()| stdout.flush());
}
