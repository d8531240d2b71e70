//! A message is read once in each process it passes, whichever way it goes.
//!
//! Every face of outlive is a process of its own here: this program, started again in another role. A host or client
//! sends some messages through, each process tells at its end how many lines it has read, and that is how many
//! messages have come into it. Only debug builds count.

mod peer;
mod role;

use peer::{Http, Pipe, Role};

/// Calls in each walk. Each is answered with one message of progress and one result.
const CALLS: u64 = 5;

/// What a legacy host says: `initialize`, `notifications/initialized`, and its calls.
const ASKED: u64 = CALLS + 2;

/// What a server says to that.
const SAID: u64 = 2 * CALLS + 1;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [name, rest @ ..] = &arguments[..]
        && let Some(name) = name.strip_prefix("role:")
    {
        return role::play(name, rest);
    }
    // The names of the walks to take, as with any other test; flags are for the harness that this has not.
    let filter = arguments.iter().find(|it| !it.starts_with('-'));
    let walks: [(&str, fn()); 9] = [
        ("run", run),
        ("run_url", run_url),
        ("serve", serve),
        ("serve_shared", serve_shared),
        ("serve_modern", serve_modern),
        ("serve_url", serve_url),
        ("serve_url_modern", serve_url_modern),
        ("client", client),
        ("client_url", client_url),
    ];
    for (name, walk) in walks {
        if filter.is_none_or(|it| name.contains(it.as_str())) && cfg!(debug_assertions) {
            walk();
            println!("test {name} ... ok");
        }
    }
}

/// Asserts what the processes have read: the one that `walker` is, and the server behind it.
fn assert_reads(walker: Role, expected: u64, server_expected: u64) {
    let (read, server_read) = walker.finish();
    assert_eq!(read, expected, "reads on the way");
    assert_eq!(server_read, server_expected, "reads of the server");
}

fn run() {
    let mut role = Role::start("run", &[]);
    Pipe::of(&mut role).talk(CALLS);
    assert_reads(role, ASKED + SAID, ASKED);
}

fn run_url() {
    let server = Role::start("http_server", &[]);
    let mut role = Role::start("run_url", &[&server.url()]);
    Pipe::of(&mut role).talk(CALLS);
    assert_reads(role.before(server), ASKED + SAID, ASKED);
}

fn serve() {
    let role = Role::start("serve", &["dedicated"]);
    Http::new(&role.url()).talk(CALLS);
    assert_reads(role, ASKED + SAID, ASKED);
}

/// Ids and progress tokens are given anew, and nothing is read for that.
fn serve_shared() {
    let role = Role::start("serve", &["shared"]);
    Http::new(&role.url()).talk(CALLS);
    assert_reads(role, ASKED + SAID, ASKED);
}

/// The gateway asks the server for its era: its own question is not read, the answer is.
fn serve_modern() {
    let role = Role::start("serve", &["dedicated"]);
    Http::new(&role.url()).talk_modern(CALLS);
    assert_reads(role, CALLS + 2 * CALLS + 1, CALLS + 1);
}

fn serve_url() {
    let server = Role::start("http_server", &[]);
    let role = Role::start("serve_url", &[&server.url()]);
    Http::new(&role.url()).talk(CALLS);
    assert_reads(role.before(server), ASKED + SAID, ASKED);
}

fn serve_url_modern() {
    let server = Role::start("http_server", &[]);
    let role = Role::start("serve_url", &[&server.url()]);
    Http::new(&role.url()).talk_modern(CALLS);
    assert_reads(role.before(server), CALLS + 2 * CALLS + 1, CALLS + 1);
}

/// What the client writes itself comes into the session from outside, and is read as such.
fn client() {
    let role = Role::start("client", &[&CALLS.to_string()]);
    assert_reads(role, ASKED + SAID, ASKED);
}

fn client_url() {
    let server = Role::start("http_server", &[]);
    let role = Role::start("client_url", &[&CALLS.to_string(), &server.url()]);
    assert_reads(role.before(server), ASKED + SAID, ASKED);
}
