//! How long it takes to index many tools, and to find some of them: the catalogues of the tests, as often as it takes.

use std::hint::black_box;
use std::time::{Duration, Instant};
use std::{fs, io};

use serde_json::Value;

use outlive_core::search::{Entry, Index};

const TOOLS: [usize; 3] = [1_000, 5_000, 20_000];
const ROUNDS: u32 = 50;
const QUERIES: [&str; 4] = [
    "take a screenshot of the page",
    "create an issue",
    "which resource groups exist in my subscription",
    "list get read find search update create delete add remove run file page user issue project data query table",
];

struct Tool {
    name: String,
    description: String,
    schema: String,
}

fn main() -> io::Result<()> {
    let listed = read()?;
    for number in TOOLS {
        let tools: Vec<Tool> = (0..number)
            .map(|at| {
                let tool = &listed[at % listed.len()];
                let name = format!("server{}__{}", at / listed.len(), tool.name);
                Tool {
                    name,
                    description: tool.description.clone(),
                    schema: tool.schema.clone(),
                }
            })
            .collect();
        let bytes: usize = tools
            .iter()
            .map(|tool| tool.description.len() + tool.schema.len())
            .sum();
        let begun = Instant::now();
        let index = Index::new(tools.iter().map(|tool| Entry {
            name: &tool.name,
            title: None,
            description: Some(&tool.description),
            schema: tool.schema.as_bytes(),
        }));
        let indexed = begun.elapsed();
        println!(
            "{number} tools, {} kB: indexed in {} ms",
            bytes / 1000,
            indexed.as_millis()
        );
        for query in QUERIES {
            println!(
                "  found in {:>5} µs: {query}",
                find(&index, query).as_micros()
            );
        }
    }
    Ok(())
}

/// How long a query takes on the average.
fn find(index: &Index, query: &str) -> Duration {
    let begun = Instant::now();
    for _ in 0..ROUNDS {
        black_box(index.find(black_box(query), 10));
    }
    begun.elapsed() / ROUNDS
}

fn read() -> io::Result<Vec<Tool>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/catalogues");
    let mut paths: Vec<_> = fs::read_dir(folder)?
        .map(|file| file.map(|file| file.path()))
        .collect::<Result<_, _>>()?;
    paths.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "json")
    });
    paths.sort();
    let mut tools = Vec::new();
    for path in paths {
        let catalogue: Value = serde_json::from_str(&fs::read_to_string(path)?)?;
        for tool in catalogue["tools"].as_array().into_iter().flatten() {
            tools.push(Tool {
                name: tool["name"].as_str().unwrap_or_default().to_owned(),
                description: tool["description"].as_str().unwrap_or_default().to_owned(),
                schema: tool["inputSchema"].to_string(),
            });
        }
    }
    Ok(tools)
}
