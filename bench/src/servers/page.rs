//! The results as Markdown, for a terminal and for `docs/benchmarks-servers.md`.

use super::Servers;
use crate::report::{judged, machine, number, ratio, row, table};
use crate::target::Target;

/// Everything, in the order in which a reader asks.
pub fn markdown(servers: &Servers, targets: &[Target]) -> String {
    let mut page = machine();
    page += "\n### From the start to the whole list\n\n";
    page += &table(&["", "ms", "over the first"]);
    for (name, took, over) in servers.starts.rows() {
        row(&mut page, &[name.to_owned(), number(took), ratio(over)]);
    }
    page += "\n### A call through the router over one without\n\n";
    page += &table(&["", "HTTP", "stdio"]);
    for cell in servers.calls.cells() {
        let [http, stdio] = servers.calls.ratios(*cell).map(ratio);
        row(&mut page, &[cell.to_string(), http, stdio]);
    }
    page += "\n### One server to a hundred\n\n";
    page += &table(&["", "a call, µs", "over the first", "a list, µs per tool"]);
    for (name, [call, over, list]) in servers.growth.rows() {
        let fields = [name.to_owned(), number(call), ratio(over), number(list)];
        row(&mut page, &fields);
    }
    page += "\n### Targets\n\n";
    page += &judged(targets);
    page.push('\n');
    page
}
