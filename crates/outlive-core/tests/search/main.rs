//! Whether search finds the tools of real servers for tasks in an agent's words, and whether its rules hold on them.
//!
//! `cargo test -p outlive-core --features search --test search -- --nocapture` prints the figures, and the tasks that
//! fail. `docs/search.md` says what they mean.

mod catalogue;
mod task;

use task::{Figures, Tasks};

/// Measures, and says so.
fn measure(held_out: bool) -> Figures {
    let tasks = Tasks::read();
    let tools = tasks.tools();
    assert_eq!(tasks.unknown(&tools), None);
    let figures = Figures::measure(tasks.of(held_out), &catalogue::index(&tools), &tools);
    println!("{} {figures}", if held_out { "held out" } else { "seen" });
    figures
}

#[test]
fn tasks_find_their_tools() {
    let figures = measure(false);
    assert!(figures.recall_at_5 >= 0.5, "{figures}");
}

#[test]
fn tasks_that_were_held_out_find_their_tools() {
    let figures = measure(true);
    assert!(figures.recall_at_5 >= 0.5, "{figures}");
}
