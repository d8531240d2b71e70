//! Whether search finds the tools of real servers for tasks in an agent's words, and whether its rules hold on them.
//!
//! `cargo test -p outlive-core --features search --test search -- --nocapture` prints the figures, and the tasks that
//! fail. `docs/search.md` says what they mean.

mod catalogue;
mod task;

use catalogue::Tool;
use outlive_core::search::Index;
use task::{Figures, Tasks};

/// What a search must reach, a little below what it did when this was written.
struct Floor {
    recall_at_5: f64,
    recall_at_10: f64,
    reciprocal_rank: f64,
}

impl Floor {
    fn check(&self, figures: &Figures) {
        assert!(
            figures.recall_at_5 >= self.recall_at_5,
            "recall@5: {figures}"
        );
        assert!(
            figures.recall_at_10 >= self.recall_at_10,
            "recall@10: {figures}"
        );
        assert!(
            figures.reciprocal_rank >= self.reciprocal_rank,
            "MRR: {figures}"
        );
    }
}

/// Measures one half of the tasks, and prints it.
fn measure(held_out: bool) -> Figures {
    let tasks = Tasks::read();
    let tools = tasks.tools();
    assert_eq!(tasks.unknown(&tools), None, "a tool that no server lists");
    let figures = Figures::measure(tasks.of(held_out), &catalogue::index(&tools), &tools);
    println!("{}: {figures}", if held_out { "held out" } else { "seen" });
    figures
}

#[test]
fn tasks_find_their_tools() {
    Floor {
        recall_at_5: 0.88,
        recall_at_10: 0.93,
        reciprocal_rank: 0.72,
    }
    .check(&measure(false));
}

#[test]
fn tasks_that_were_held_out_find_their_tools() {
    Floor {
        recall_at_5: 0.91,
        recall_at_10: 0.92,
        reciprocal_rank: 0.74,
    }
    .check(&measure(true));
}

#[test]
fn tasks_find_their_tools_when_names_do_not_tell_the_server() {
    let tasks = Tasks::read();
    let tools = tasks.tools();
    let index = Index::new(tools.iter().map(|tool| tool.entry(&tool.listed.name)));
    let figures = Figures::measure(tasks.of(false).chain(tasks.of(true)), &index, &tools);
    println!("without servers: {figures}");
    Floor {
        recall_at_5: 0.88,
        recall_at_10: 0.92,
        reciprocal_rank: 0.72,
    }
    .check(&figures);
}

#[test]
fn every_tool_is_found_first_by_its_name() {
    let tools = Tasks::read().tools();
    let index = catalogue::index(&tools);
    assert_eq!(index.len(), tools.len());
    for (position, tool) in tools.iter().enumerate() {
        assert_eq!(
            index.find(&tool.exposed, 1)[0].position,
            position,
            "{}",
            tool.exposed
        );
    }
}

#[test]
fn the_name_that_a_server_gave_finds_all_tools_of_that_name_first() {
    let tools = Tasks::read().tools();
    let index = catalogue::index(&tools);
    // `list-databases` of one server and `list_databases` of another are the same words.
    let plain = |tool: &Tool| tool.listed.name.to_lowercase().replace('-', "_");
    for tool in &tools {
        let same = tools
            .iter()
            .filter(|other| plain(other) == plain(tool))
            .count();
        let found = index.find(&tool.listed.name, same);
        let others: Vec<&str> = (found.iter().map(|found| &tools[found.position]))
            .filter(|other| plain(other) != plain(tool))
            .map(|other| other.id.as_str())
            .collect();
        assert!(others.is_empty(), "{}: {others:?}", tool.id);
    }
}

#[test]
fn the_order_of_servers_does_not_decide_what_is_found() {
    let tasks = Tasks::read();
    let mut tools = tasks.tools();
    let forward = Figures::measure(tasks.of(false), &catalogue::index(&tools), &tools);
    tools.reverse();
    let backward = Figures::measure(tasks.of(false), &catalogue::index(&tools), &tools);
    let difference = (forward.reciprocal_rank - backward.reciprocal_rank).abs();
    assert!(difference < 0.02, "{forward}{backward}");
}
