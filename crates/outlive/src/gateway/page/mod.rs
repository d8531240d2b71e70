//! The page for people.
//!
//! # Theory
//!
//! The page is drawn here, whole, from a [`Report`]; without JavaScript it is a page that reloads. The script draws
//! nothing: it asks for the same page again, now and then, and carries what has changed over into the one that is
//! shown, so that focus and whatever is folded open stay. There is one place where a thing is put into words.
//!
//! Style and script are files of their own, so that the page's policy can forbid everything that stands in the page.
//! Addresses in it are relative: it may be found below any path.

mod server;
mod sparkline;
mod withheld;

use std::fmt::Write;

use outlive_core::Meter;
use outlive_core::cause::CauseKind;

use super::report::{Health, Report, ServerReport, brief};
use crate::http_server::Asset;

/// What the page loads.
pub(super) fn asset(path: &str) -> Option<Asset> {
    let (kind, text) = match path {
        "/page.css" => ("text/css; charset=utf-8", include_str!("page.css")),
        "/page.js" => ("text/javascript; charset=utf-8", include_str!("page.js")),
        _ => return None,
    };
    Some(Asset { kind, text })
}

/// The page.
pub(super) fn document(report: &Report, meter: &Meter) -> String {
    let troubled: Vec<&ServerReport> = report
        .servers
        .iter()
        .filter(|server| !server.health.is_well())
        .collect();
    let headline = headline(report, &troubled);
    let is_well = troubled.is_empty() && report.problem.is_none();
    let colour = if is_well { "%231a7f37" } else { "%23cf222e" };
    let mut page = format!(
        "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n\
         <meta name=viewport content='width=device-width, initial-scale=1'>\n\
         <meta name=color-scheme content='light dark'>\n<title>{headline} · outlive</title>\n\
         <link rel=icon href=\"data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'>\
         <circle cx='8' cy='8' r='7' fill='{colour}'/></svg>\">\n\
         <link rel=stylesheet href=page.css>\n<script src=page.js defer></script>\n\
         <noscript><meta http-equiv=refresh content=5></noscript>\n</head>\n<body>\n<main>\n"
    );
    write_glance(&mut page, report, &headline, &troubled);
    page.push_str("<div class=servers>\n");
    for server in &report.servers {
        server::write(&mut page, server, report.may_act);
    }
    page.push_str("</div>\n");
    write_requests(&mut page, meter);
    page.push_str(
        "</main>\n<footer><p id=live>Reload to see what has changed.</p><p id=said role=status></p>\n\
         <p>For programs: <a href=status.json>status.json</a>, <a href=metrics>metrics</a>, \
         <a href=ready>ready</a>.</p>\n</footer>\n</body>\n</html>\n",
    );
    page
}

/// What one glance should tell.
fn headline(report: &Report, troubled: &[&ServerReport]) -> String {
    if report.shutting_down {
        return "outlive is shutting down".into();
    }
    match (troubled, report.servers.len()) {
        ([], 1) => "All is well".into(),
        ([], all) => format!("All {all} servers are well"),
        ([server], all) => {
            let how = match server.health {
                Health::Degraded => "is partly down",
                _ => "is down",
            };
            match all {
                1 => format!("The server {how}"),
                _ => format!("{} {how}", escaped(&server.name)),
            }
        }
        (several, all) => format!("{} of {all} servers are in trouble", several.len()),
    }
}

fn write_glance(page: &mut String, report: &Report, headline: &str, troubled: &[&ServerReport]) {
    let class = if troubled.is_empty() { "well" } else { "ill" };
    let ready = if report.ready { "Ready" } else { "Not ready" };
    let _ = writeln!(
        page,
        "<header class='glance {class}'>\n<p class=brand>outlive {}</p>\n<h1>{headline}</h1>",
        env!("CARGO_PKG_VERSION"),
    );
    let link = |server: &&ServerReport| {
        let name = escaped(&server.name);
        format!("<a href='#server-{name}'>{name}</a>")
    };
    if let Some(problem) = &report.problem {
        let _ = writeln!(page, "<p class=problem id=problem>{}</p>", escaped(problem));
    }
    if troubled.len() > 1 {
        let links: Vec<String> = troubled.iter().map(link).collect();
        let _ = writeln!(page, "<p class=troubled>{}</p>", links.join(", "));
    }
    let withheld = report.servers.iter().filter(|it| it.withheld.is_some());
    let withheld: Vec<String> = withheld.map(|it| link(&it)).collect();
    if !withheld.is_empty() {
        let _ = writeln!(
            page,
            "<p class=pending id=pending>Definitions are withheld until somebody accepts them: {}</p>",
            withheld.join(", ")
        );
    }
    let _ = writeln!(
        page,
        "<p>{ready}, up for {}; {}, {}, {}; {} in flight, {} held.</p>\n</header>",
        brief(report.uptime),
        counted(report.connections as u64, "connection"),
        counted(report.sessions as u64, "session"),
        counted(report.streams as u64, "stream"),
        counted(report.in_flight, "request"),
        report.held,
    );
}

fn write_requests(page: &mut String, meter: &Meter) {
    page.push_str(
        "<details class=requests id=requests><summary>Requests since the start</summary>\n",
    );
    if meter.requests().next().is_none() {
        page.push_str("<p>None yet.</p>\n");
    } else {
        page.push_str("<div class=wide><table><tr><th>method<th>ended<th class=number>how often\n");
        for (method, result, count) in meter.requests() {
            let _ = writeln!(page, "<tr><td>{method}<td>{result}<td class=number>{count}");
        }
        page.push_str("</table></div>\n");
    }
    let _ = write!(page, "<p>Sent again: {}.", meter.retried());
    let lost = meter.lost();
    for (cause, count) in lost.filter(|(cause, _)| *cause != CauseKind::Closing) {
        let _ = write!(page, " Lost, {cause}: {count}.");
    }
    for (_, reason, count) in meter.dropped() {
        let _ = write!(page, " Dropped, {reason}: {count}.");
    }
    page.push_str("</p>\n</details>\n");
}

/// Text that is nothing but text in a page.
pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            letter => safe.push(letter),
        }
    }
    safe
}

/// "1 session", "2 sessions".
fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text() {
        assert_eq!(
            escaped("<a href=\"x\" b='y'>&amp;"),
            "&lt;a href=&quot;x&quot; b=&#39;y&#39;&gt;&amp;amp;"
        );
    }
}
