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
    // Another server lives on, and what is its own is left to it. (One without an environment may be of any server that
    // is older than itself, and is ended with the last of those.)
    let stays = (way != BARE.1).then(|| {
        let file = gate.setup.path("stays");
        let script = escape::script(way, &file);
        let other = gate.client();
        other
            .call(1, "orphan", json!({ "script": script }))
            .answer();
        until("the escape", || Escaped::find(&file))
    });
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
        let left = stays.as_ref().is_none_or(|stays| !stays.is_gone());
        assert!(left, "{end:?}, {way}: another server's was ended");
        gate.stop();
    }
    gate.join();
    stays.iter().all(is_gone) && gone
}

/// FM-10: a grandchild that calls `setsid`, forks twice, does both, or is started with `nohup` is gone after whatever
/// ends its server: 36 combinations. And one that does all that and clears its environment is, too, unless outlive
/// itself is killed with `SIGKILL`: 7 more.
#[test]
fn fm_10_no_grandchild_gets_away() {
    let failures: Vec<String> = thread::scope(|scope| {
        let rows: Vec<_> = ENDS
            .into_iter()
            .map(|end| {
                scope.spawn(move || {
                    let killed = matches!(end, End::RunKill | End::ServeKill);
                    let bare = (!killed).then_some(BARE);
                    let ways = WAYS.into_iter().chain(bare);
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
