//! The examples do what their first lines say.

use std::collections::HashMap;
use std::env;
use std::path::PathBuf;
use std::process::Command;

/// What an example prints.
fn run(name: &str) -> Vec<String> {
    let output = Command::new(example(name)).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {stderr}", output.status);
    let stdout = String::from_utf8(output.stdout).unwrap();
    stdout.lines().map(str::to_owned).collect()
}

/// Cargo puts examples into a folder beside the one of this test.
fn example(name: &str) -> PathBuf {
    let own = env::current_exe().unwrap();
    let program = own.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(
        program.is_file(),
        "{} is missing: cargo build -p outlive --examples",
        program.display()
    );
    program
}

#[test]
fn survivor_says_the_truth_and_goes_on_with_the_same_tools() {
    assert_eq!(
        run("survivor"),
        [
            "1) state=ready (server 1), tools=[\"ping\", \"crash\"]",
            "2) ping -> pong",
            "3) crash tool raised ConnectionLost: the server exited with code 1 (outcome: unknown)",
            "4) one second after server death: \
             state=ready (server 1) -> down -> connecting -> ready (server 2)",
            "5) ping -> pong",
            "6) ping -> pong",
            "7) the server was restarted by itself; state=ready (server 2)",
            "8) closed; state=closed",
        ]
    );
}

#[test]
fn cancel_or_lost_shows_two_endings_that_differ() {
    assert_eq!(
        run("cancel_or_lost"),
        [
            "Test 1: server dies mid-request",
            "  ConnectionLost: the server was ended by signal 9 (SIGKILL) (outcome: unknown)",
            "Test 2: the caller cancels",
            "  CancelledByCaller",
            "Test 3: the caller drops the call",
            "  nobody is told anything; same server afterwards: true",
        ]
    );
}

#[test]
fn race_has_one_ending_for_each_call() {
    let lines = run("race");
    let numbers: HashMap<&str, u64> = lines
        .iter()
        .filter_map(|line| line.trim().split_once(": "))
        .map(|(label, number)| (label, number.parse().unwrap()))
        .collect();
    let number = |label: &str| numbers[label];
    let (early, late) = (
        number("cancelled before they were answered"),
        number("answered before that"),
    );
    assert_eq!(early + late, number("calls cancelled as they returned"));
    assert!(early > 0 && late > 0, "the moment was missed: {lines:?}");
    assert_eq!(number("answered"), number("calls left alone"));
    assert_eq!(number("missing"), 0);
    assert_eq!(number("calls answered twice"), 0);
}

#[test]
fn host_knows_how_its_servers_stand() {
    let lines = run("host");
    let status =
        |dice: &str| format!("  weather: ready (process 1), sums: ready (process 1), dice: {dice}");
    assert_eq!(
        lines[..4],
        [
            "weather offers forecast",
            "sums offers add",
            "dice offers throw, cheat",
            status("ready (process 1)").trim_start(),
        ]
    );
    let (calls, standing): (Vec<_>, Vec<_>) = lines[4..lines.len() - 1]
        .chunks_exact(2)
        .map(|pair| (&*pair[0], &*pair[1]))
        .unzip();
    assert_eq!(
        calls[..5],
        [
            "forecast -> It will rain in Ulm.",
            "throw -> 1",
            "throw -> 2",
            "throw -> 1",
            "add -> 3.5",
        ]
    );
    assert!(
        calls[5]
            .starts_with("cheat -> The server exited with code 7 while running tool \"cheat\".")
    );
    assert_eq!(calls[6], "throw -> 1");
    assert!(calls[7].starts_with("forecast -> failed: "));

    assert_eq!(standing[2], status("ready (process 1)"));
    assert_eq!(standing[3], status("ready (process 2)"));
    // Whatever it is by now, it is not the one that has just died.
    assert_ne!(standing[5], status("ready (process 2)"));
    assert_eq!(standing[6], status("ready (process 3)"));
    assert_eq!(
        lines[lines.len() - 1],
        "weather: closed, sums: closed, dice: closed"
    );
}

#[cfg(feature = "macros")]
#[test]
fn notes_has_tools_that_are_functions() {
    let output = Command::new(example("notes")).arg("try").output();
    let output = output.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        text.lines().collect::<Vec<_>>(),
        [
            "add -> There are 1 notes now.",
            "add -> There are 2 notes now.",
            "find -> [{\"title\":\"milk\",\"text\":\"two bottles\"}]",
            "remove -> Forgotten.",
            "remove -> There is no note \"milk\". (failed)",
            "find -> The arguments are wrong: `most`: invalid type: string \"one\", expected usize. (failed)",
            "sorted -> Never.",
        ]
    );
}

#[cfg(feature = "rmcp")]
#[test]
fn rmcp_survivor_loses_a_call_and_nothing_else() {
    assert_eq!(
        run("rmcp_survivor"),
        [
            "ping: pong",
            "die: connection_lost, outcome Unknown",
            "ping: pong",
            "state: Ready { generation: Generation(2) }",
            "state: Closed",
        ]
    );
}
