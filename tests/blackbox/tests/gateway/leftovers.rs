//! Nothing is left behind by `outlive run` and `outlive serve`: whatever a grandchild does to get away, and whatever
//! ends its server.

use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::gate::Gate;
use crate::rig::escape::{self, BARE, Escaped, WAYS};
use crate::rig::{Host, PATIENCE, Setup, tree, until};
use crate::wire::modern_call;

const BRISK: [&str; 6] = [
    "--stop-grace",
    "200ms",
    "--term-grace",
    "200ms",
    "--drain",
    "200ms",
];

/// What ends the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    RunEndOfInput,
    RunTerm,
    RunKill,
    RunCrash,
    ServeDelete,
    ServeTerm,
    ServeKill,
    ServeCrash,
    ServeIdleStop,
}

const ENDS: [End; 9] = [
    End::RunEndOfInput,
    End::RunTerm,
    End::RunKill,
    End::RunCrash,
    End::ServeDelete,
    End::ServeTerm,
    End::ServeKill,
    End::ServeCrash,
    End::ServeIdleStop,
];

/// The call that lets one escape, and how it is found.
struct Flight {
    file: String,
    arguments: Value,
}

impl Flight {
    fn of(setup: &Setup, way: &str) -> Flight {
        let file = setup.path("escaped");
        let arguments = json!({ "script": escape::script(way, &file) });
        Flight { file, arguments }
    }

    fn take(&self) -> Escaped {
        until("the escape", || Escaped::find(&self.file))
    }
}

/// Whether it is gone in the end; if not, it is ended, so that a failed test leaves nothing either.
fn is_gone(escaped: &Escaped) -> bool {
    let begun = Instant::now();
    while !escaped.is_gone() {
        if begun.elapsed() > PATIENCE / 3 {
            escaped.kill();
            return false;
        }
        thread::sleep(Duration::from_millis(10));
    }
    true
}

/// Lets one escape and ends its server; whether it is gone then.
fn goes(end: End, way: &str) -> bool {
    match end {
        End::RunEndOfInput | End::RunTerm | End::RunKill | End::RunCrash => goes_from_run(end, way),
        _ => goes_from_serve(end, way),
    }
}

fn goes_from_run(end: End, way: &str) -> bool {
    let mut host = Host::ready(Setup::new().flags(&BRISK));
    let flight = Flight::of(&host.setup, way);
    host.ask("orphan", flight.arguments.clone()).result();
    let escaped = flight.take();
    match end {
        End::RunEndOfInput => host.hang_up(),
        End::RunTerm => host.signal(Signal::TERM),
        End::RunKill => host.signal(Signal::KILL),
        _ => {
            host.ask("crash", json!({})).refused("connection_lost");
            assert_eq!(host.ping(), host.server(2), "the next one serves");
            return is_gone(&escaped);
        }
    }
    host.exit();
    is_gone(&escaped)
}

fn goes_from_serve(end: End, way: &str) -> bool {
    let idle = ["--idle-stop", "300ms"];
    let flags = match end {
        End::ServeIdleStop => [&BRISK[..], &idle].concat(),
        _ => BRISK.to_vec(),
    };
    let gate = Gate::with(Setup::new(), &flags);
    let flight = Flight::of(&gate.setup, way);
    if end == End::ServeIdleStop {
        gate.modern(&modern_call(1, "orphan", flight.arguments.clone()))
            .answer();
        let escaped = flight.take();
        return is_gone(&escaped);
    }
    let client = gate.client();
    // Another server lives on, and what is its own is left to it.
    let other = gate.client();
    let file = gate.setup.path("stays");
    let script = escape::script(way, &file);
    other
        .call(1, "orphan", json!({ "script": script }))
        .answer();
    let stays = until("the escape", || Escaped::find(&file));
    client.call(1, "orphan", flight.arguments.clone()).answer();
    let escaped = flight.take();
    match end {
        End::ServeDelete => drop(client.leave()),
        End::ServeCrash => drop(client.call(2, "crash", json!({}))),
        End::ServeTerm => gate.stop(),
        _ => tree::kill(gate.pid(), Signal::KILL),
    }
    let gone = is_gone(&escaped);
    if matches!(end, End::ServeDelete | End::ServeCrash) {
        assert!(
            !stays.is_gone(),
            "{end:?}, {way}: another server's was ended"
        );
        gate.stop();
    }
    gate.join();
    is_gone(&stays) && gone
}

/// FM-10: a grandchild that calls `setsid`, forks twice, does both, is started with `nohup`, or does all that and
/// clears its environment is gone after whatever ends its server, a `SIGKILL` of outlive itself included: 45
/// combinations.
#[test]
fn fm_10_no_grandchild_gets_away() {
    let failures: Vec<String> = thread::scope(|scope| {
        let rows: Vec<_> = ENDS
            .into_iter()
            .map(|end| {
                scope.spawn(move || {
                    let ways = WAYS.into_iter().chain([BARE]);
                    let left = ways.filter(|(_, way)| !goes(end, way));
                    left.map(|(name, _)| format!("{end:?}: {name}"))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        rows.into_iter()
            .flat_map(|row| row.join().expect("no panic"))
            .collect()
    });
    assert!(failures.is_empty(), "left behind: {failures:#?}");
}
