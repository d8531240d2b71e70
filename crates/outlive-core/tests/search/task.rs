//! Tasks, and the tools that should be found for them.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

use outlive_core::search::Index;

use crate::catalogue::{self, Tool};

/// How many tools are asked for.
const MOST: usize = 10;

/// What `queries.json` holds.
#[derive(Deserialize)]
pub struct Tasks {
    /// Catalogues by the names that their servers have here.
    servers: BTreeMap<String, String>,
    queries: Vec<Task>,
}

/// A task in the words of an agent.
#[derive(Deserialize)]
pub struct Task {
    pub query: String,
    /// The tools that do it. It is enough to find one of them.
    want: Vec<String>,
    /// Whether it was kept out of sight while weights were chosen.
    #[serde(default)]
    held_out: bool,
}

impl Tasks {
    pub fn read() -> Tasks {
        serde_json::from_str(include_str!("queries.json"))
            .expect("queries.json is what it should be")
    }

    pub fn tools(&self) -> Vec<Tool> {
        self.servers
            .iter()
            .flat_map(|(server, catalogue)| catalogue::read(server, catalogue))
            .collect()
    }

    pub fn of(&self, held_out: bool) -> impl Iterator<Item = &Task> {
        self.queries
            .iter()
            .filter(move |task| task.held_out == held_out)
    }

    /// Names a wanted tool that no server lists.
    pub fn unknown<'a>(&'a self, tools: &[Tool]) -> Option<&'a str> {
        let mut wanted = self.queries.iter().flat_map(|task| &task.want);
        wanted
            .find(|id| !tools.iter().any(|tool| tool.id == **id))
            .map(String::as_str)
    }
}

impl Task {
    /// The place of the first wanted tool, counted from 1.
    fn rank(&self, index: &Index, tools: &[Tool]) -> Option<usize> {
        let found = index.find(&self.query, MOST);
        found
            .iter()
            .position(|found| self.want.contains(&tools[found.position].id))
            .map(|place| place + 1)
    }
}

/// How well an index does.
#[derive(Default)]
pub struct Figures {
    tasks: usize,
    pub recall_at_1: f64,
    pub recall_at_5: f64,
    pub recall_at_10: f64,
    /// The mean of one divided by the place of the first wanted tool.
    pub reciprocal_rank: f64,
    /// The tasks whose tool was not among the first five, and where it was.
    misses: Vec<String>,
}

impl Figures {
    pub fn measure<'t>(
        tasks: impl Iterator<Item = &'t Task>,
        index: &Index,
        tools: &[Tool],
    ) -> Figures {
        let mut sum = Figures::default();
        for task in tasks {
            sum.tasks += 1;
            let rank = task.rank(index, tools);
            let place = rank.map_or(f64::INFINITY, |rank| rank as f64);
            sum.recall_at_1 += f64::from(place <= 1.0);
            sum.recall_at_5 += f64::from(place <= 5.0);
            sum.recall_at_10 += f64::from(place <= 10.0);
            sum.reciprocal_rank += 1.0 / place;
            if place > 5.0 {
                let found = index.find(&task.query, 5);
                let instead: Vec<&str> = found
                    .iter()
                    .map(|found| tools[found.position].id.as_str())
                    .collect();
                sum.misses.push(format!(
                    "{:?} at {rank:?}; instead {}",
                    task.query,
                    instead.join(" ")
                ));
            }
        }
        let tasks = sum.tasks as f64;
        Figures {
            recall_at_1: sum.recall_at_1 / tasks,
            recall_at_5: sum.recall_at_5 / tasks,
            recall_at_10: sum.recall_at_10 / tasks,
            reciprocal_rank: sum.reciprocal_rank / tasks,
            ..sum
        }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} tasks: recall@1 {:.3}, recall@5 {:.3}, recall@10 {:.3}, MRR {:.3}",
            self.tasks, self.recall_at_1, self.recall_at_5, self.recall_at_10, self.reciprocal_rank
        )?;
        self.misses
            .iter()
            .try_for_each(|miss| writeln!(f, "  {miss}"))
    }
}
