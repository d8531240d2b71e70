//! One server on the page.

use std::fmt::Write;
use std::time::Duration;

use outlive_core::history::Calls;

use super::super::report::{Ends, Health, Instance, LossReport, ServerReport, brief};
use super::sparkline::Sparkline;
use super::{counted, escaped, withheld};

pub(super) fn write(page: &mut String, server: &ServerReport, may_act: bool) {
    let name = escaped(&server.name);
    let health = server.health.name();
    let _ = write!(
        page,
        "<article class='server {health}' id='server-{name}' aria-labelledby='name-{name}'>\n\
         <div class=title><h2 id='name-{name}'>{name}</h2><p class=state>{}</p>",
        word(server.health),
    );
    if may_act {
        let _ = write!(
            page,
            "<p class=actions><button type=button data-action=restart data-server='{name}' \
             aria-label='Restart {name}'>Restart</button>\
             <button type=button data-action=stop data-server='{name}' aria-label='Stop {name}' \
             title='It starts again with the next call'>Stop</button></p>",
        );
    }
    page.push_str("</div>\n");
    let _ = writeln!(page, "<p class=sentence>{}</p>", escaped(&server.sentence));
    write_facts(page, server);
    if server.all_calls.ended == 0 && server.in_flight == 0 && server.restarts == 0 {
        page.push_str("<p class=unknown>No calls in the last five minutes, and no restarts.</p>\n");
    } else {
        page.push_str("<dl class=figures>\n");
        write_calls(page, server);
        write_restarts(page, server);
        page.push_str("</dl>\n");
    }
    write_losses(page, server, &name);
    if let Some(withheld) = &server.withheld {
        withheld::write(page, withheld, &name, may_act);
    }
    page.push_str("<div class=folded>\n");
    write_tools(page, server, &name);
    write_instances(page, server, &name);
    page.push_str("</div>\n</article>\n");
}

fn word(health: Health) -> &'static str {
    match health {
        Health::Running => "Running",
        Health::Idle => "Idle",
        Health::Starting => "Starting",
        Health::Stopping => "Stopping",
        Health::Degraded => "Partly down",
        Health::Down => "Down",
    }
}

fn write_facts(page: &mut String, server: &ServerReport) {
    let label = escaped(&server.label);
    let _ = write!(
        page,
        "<p class=facts><code>{label}</code></p>\n<p class=facts><span>at {}</span>",
        escaped(&server.path)
    );
    if let Some(software) = &server.software {
        let _ = write!(page, " <span>{}</span>", escaped(software));
    }
    if let Some(generation) = server.generation {
        let _ = write!(page, " <span>generation {generation}</span>");
    }
    page.push_str("</p>\n");
}

fn write_calls(page: &mut String, server: &ServerReport) {
    let slots = &server.calls;
    let all = &server.all_calls;
    let count = |of: fn(&Calls) -> u32| {
        let counts = slots.iter().map(|slot| slot.as_ref().map_or(0, of).into());
        counts.collect::<Vec<f64>>()
    };
    let ended = count(|slot| slot.ended);
    let told = format!("Calls in the last five minutes: {}", all.ended);
    let picture = Sparkline::new(&told).bars("calls", &ended, highest(&ended));
    let number = format!("{}<small>{} in flight</small>", all.ended, server.in_flight);
    figure(page, "Calls", "last 5 min", &number, picture);

    let latency = |part: f64| {
        let quantile = |slot: &Option<Calls>| slot.as_ref()?.latency.quantile(part);
        let quantiles = slots.iter().map(quantile);
        let quantiles = quantiles.map(|it| it.map(|it| it.as_secs_f64()));
        quantiles.collect::<Vec<Option<f64>>>()
    };
    let (p50, p99) = (latency(0.5), latency(0.99));
    let top = p99.iter().flatten().fold(0.0, |top: f64, it| top.max(*it));
    let whole = |part| all.latency.quantile(part).map_or("–".into(), precise);
    let told = format!(
        "Latency: median {}, 99th percentile {}",
        whole(0.5),
        whole(0.99)
    );
    let filled: Vec<f64> = p99.iter().map(|it| it.unwrap_or(0.0)).collect();
    let picture = Sparkline::new(&told).bars("p99", &filled, top);
    let picture = picture.line("p50", &p50, top);
    let shown = |part| escaped(&whole(part));
    let number = format!(
        "<span>{}<small>p50</small></span> <span>{}<small>p99</small></span>",
        shown(0.5),
        shown(0.99)
    );
    figure(page, "Latency", "last 5 min", &number, picture);

    let errors = count(|slot| slot.errors);
    let parts: Vec<f64> = errors
        .iter()
        .zip(&ended)
        .map(|(errors, ended)| if *ended > 0.0 { errors / ended } else { 0.0 })
        .collect();
    let told = format!("Errors: {} of {} calls", all.errors, all.ended);
    let rate = match all.ended {
        0 => String::from("–"),
        ended => percent(f64::from(all.errors) / f64::from(ended)),
    };
    let picture = Sparkline::new(&told).bars("errors", &parts, 1.0);
    let rate = escaped(&rate);
    let number = format!("{rate}<small>{} of {}</small>", all.errors, all.ended);
    figure(page, "Errors", "last 5 min", &number, picture);
}

fn write_restarts(page: &mut String, server: &ServerReport) {
    let lately: Vec<f64> = server
        .restarts_lately
        .iter()
        .copied()
        .map(f64::from)
        .collect();
    let sum: u32 = server.restarts_lately.iter().sum();
    let told = format!("Restarts in the last hour: {sum}");
    let picture = Sparkline::new(&told).bars("restarts", &lately, highest(&lately).max(3.0));
    let number = format!("{sum}<small>{} in all</small>", server.restarts);
    figure(page, "Restarts", "last hour", &number, picture);
}

fn figure(page: &mut String, what: &str, window: &str, number: &str, picture: Sparkline) {
    let picture = picture.finish();
    let _ = writeln!(
        page,
        "<div><dt>{what} <small>{window}</small></dt><dd>{number}</dd><dd>{picture}</dd></div>"
    );
}

fn write_losses(page: &mut String, server: &ServerReport, name: &str) {
    let Some((last, earlier)) = server.losses.split_first() else {
        return;
    };
    let _ = write!(
        page,
        "<section class=words id='words-{name}'><h3>Last loss, {}</h3><p>{}</p>",
        when(last),
        escaped(&last.sentence())
    );
    write_words(page, &last.cause.stderr_tail);
    if !earlier.is_empty() {
        let _ = write!(
            page,
            "<details id='earlier-{name}'><summary>Earlier</summary>"
        );
        for loss in earlier {
            let _ = write!(
                page,
                "<p>{} <small>{}</small></p>",
                escaped(&loss.sentence()),
                when(loss)
            );
            write_words(page, &loss.cause.stderr_tail);
        }
        page.push_str("</details>");
    }
    page.push_str("</section>\n");
}

/// When a loss was, and how often.
fn when(loss: &LossReport) -> String {
    let ago = brief(loss.ago);
    match loss.times {
        1 => format!("{ago} ago"),
        times => format!("{times} times in a row, {ago} ago"),
    }
}

/// What a server last wrote to its standard error.
fn write_words(page: &mut String, lines: &[String]) {
    if !lines.is_empty() {
        let lines: Vec<String> = lines.iter().map(|line| escaped(line)).collect();
        let _ = write!(
            page,
            "<pre aria-label='What it last wrote to standard error' tabindex=0>{}</pre>",
            lines.join("\n")
        );
    }
}

fn write_tools(page: &mut String, server: &ServerReport, name: &str) {
    let Some(tools) = &server.tools else {
        page.push_str("<p class=unknown>Tools: not known until a client lists them.</p>\n");
        return;
    };
    let all = tools.names.len() + tools.more;
    let _ = write!(
        page,
        "<details class=tools id='tools-{name}'><summary>{}</summary><ul>",
        counted(all as u64, "tool")
    );
    for tool in &tools.names {
        let _ = write!(page, "<li><code>{}</code>", escaped(tool));
    }
    if tools.more > 0 {
        let _ = write!(page, "<li>and {} more", tools.more);
    }
    page.push_str("</ul></details>\n");
}

fn write_instances(page: &mut String, server: &ServerReport, name: &str) {
    if server.instances.is_empty() {
        return;
    }
    let all = server.instances.len() + server.more_instances;
    let _ = writeln!(
        page,
        "<details class=instances id='instances-{name}'><summary>{}</summary><div class=wide><table>\
         <tr><th class=number>#<th>for<th>client<th>state<th class=number>since<th class=number>in flight\
         <th class=number>restarts<th class=number>last used<th>ends",
        counted(all as u64, "instance")
    );
    for it in &server.instances {
        let generation = it.generation.map(|it| format!(" (generation {it})"));
        let _ = writeln!(
            page,
            "<tr><td class=number>{}<td>{}<td>{}<td class=is-{}>{}{}<td class=number>{}<td class=number>{}\
             <td class=number>{}<td class=number>{} ago<td>{}",
            it.number,
            it.sharing.name().replace('_', " "),
            client(it),
            it.state,
            it.state,
            generation.unwrap_or_default(),
            brief(it.since),
            it.in_flight,
            it.restarts,
            brief(it.unused),
            match it.ends {
                Ends::Never => "not while in use".into(),
                Ends::Soon => "soon: its client has left".into(),
                Ends::In(left) => format!("in {}", brief(left)),
            },
        );
    }
    page.push_str("</table></div>");
    if server.more_instances > 0 {
        let _ = write!(page, "<p>And {} more.</p>", server.more_instances);
    }
    page.push_str("</details>\n");
}

/// Whose an instance is.
fn client(instance: &Instance) -> String {
    let name = match (&instance.client, instance.clients) {
        (Some(name), _) => escaped(name),
        (None, 0) => String::new(),
        (None, clients) => counted(clients as u64, "client"),
    };
    match (instance.token, &instance.user) {
        (Some(token), _) => format!("{name} (token {token})"),
        (None, Some(user)) => format!("{name} ({})", escaped(user)),
        (None, None) => name,
    }
}

fn highest(numbers: &[f64]) -> f64 {
    numbers.iter().fold(0.0, |top, it| top.max(*it))
}

/// A short time with two digits that count: "0.4 ms", "12 ms", "1.3 s".
fn precise(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    match ms {
        ..0.95 => format!("{ms:.1} ms").replace("0.0 ms", "<0.1 ms"),
        ..9.95 => format!("{ms:.1} ms"),
        ..999.5 => format!("{ms:.0} ms"),
        ..9950.0 => format!("{:.1} s", ms / 1e3),
        _ => format!("{:.0} s", ms / 1e3),
    }
}

fn percent(part: f64) -> String {
    match 100.0 * part {
        0.0 => "0 %".into(),
        ..0.1 => "<0.1 %".into(),
        few @ ..9.95 => format!("{few:.1} %"),
        many => format!("{many:.0} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_parts_have_the_digits_that_count() {
        let times = [20, 420, 12_000, 999_000, 1_340_000, 61_000_000];
        let times = times.map(|micros| precise(Duration::from_micros(micros)));
        let expected = ["<0.1 ms", "0.4 ms", "12 ms", "999 ms", "1.3 s", "61 s"];
        assert_eq!(times, expected);
        let parts = [0.0, 0.0004, 0.012, 0.5, 1.0].map(percent);
        assert_eq!(parts, ["0 %", "<0.1 %", "1.2 %", "50 %", "100 %"]);
    }
}
