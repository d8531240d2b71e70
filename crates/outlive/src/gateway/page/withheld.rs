//! What is withheld of a server, and the button to accept it.
//!
//! The texts may be hostile, and are there to be judged by a person: lines come with escapes for what does not show,
//! and are bounded. What does not fit is not accepted unseen: without all of it on the page there is no button.

use std::fmt::Write;

use outlive_core::protocol::List;
use outlive_core::roster::{Change, Difference};

use super::super::pin_files::{Reason, Withheld};
use super::{counted, escaped};

/// Definitions that are shown.
const MOST: usize = 200;

pub(super) fn write(page: &mut String, withheld: &Withheld, name: &str, may_act: bool) {
    let Withheld {
        reason,
        differences,
        digest,
        ..
    } = withheld;
    let what = match reason {
        Reason::Changed => counted(differences.len() as u64, "definition"),
        _ => "All of its definitions".into(),
    };
    let _ = write!(
        page,
        "<section class=withheld id='withheld-{name}'><h3>Withheld: {what}</h3>\
         <p>Withheld because {}. Clients are shown what was accepted, and nothing else.</p>",
        escaped(&reason.to_string())
    );
    for difference in differences.iter().take(MOST) {
        write_difference(page, difference);
    }
    let more = differences.len().saturating_sub(MOST);
    if more > 0 {
        let _ = write!(
            page,
            "<p>And {more} more. See and accept all of it with <code>outlive accept {name}</code>.</p>"
        );
    } else if may_act {
        // The button is another one when the server has changed once more: who is about to press it does not.
        let _ = write!(
            page,
            "<p class=actions><button type=button id='accept-{name}-{digest}' data-action=accept data-server='{name}' \
             data-digest={digest} aria-label='Accept what {name} offers now'>Accept</button></p>"
        );
    }
    page.push_str("</section>\n");
}

fn write_difference(page: &mut String, difference: &Difference) {
    let what = difference.list.map_or("", List::noun);
    let kind = match difference.kind {
        Change::New => "new",
        Change::Changed => "changed",
        Change::Removed => "no longer there",
    };
    // Escapes as in the lines: a name may be as hostile as a description.
    let key = format!("{:?}", difference.key);
    let _ = write!(
        page,
        "<p>{what} <code>{}</code> is {kind}</p>\
         <pre tabindex=0 aria-label='What differs'>",
        escaped(&key)
    );
    for line in difference.lines() {
        let tag = if line.starts_with('+') { "ins" } else { "del" };
        let _ = writeln!(page, "<{tag}>{}</{tag}>", escaped(&line));
    }
    page.push_str("</pre>");
}
