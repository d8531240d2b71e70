//! Lines for people at a terminal.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

/// No line is longer.
pub const WIDTH: usize = 100;

/// What empties a terminal before it is written anew; nothing elsewhere.
pub fn clear() -> &'static str {
    match io::stdout().is_terminal() {
        true => "\x1b[H\x1b[2J\x1b[3J",
        false => "",
    }
}

/// Writes to standard output. False if nobody reads it any more, which is no mistake.
pub fn print(text: &str) -> bool {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .is_ok()
}

/// Text of others, on one line: what a terminal would obey is escaped.
pub fn plain(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter.is_control() {
            true => safe.extend(letter.escape_default()),
            false => safe.push(letter),
        }
    }
    safe
}

/// The beginning of a text that is longer than this.
pub fn cut(text: &str, width: usize) -> String {
    match text.chars().count() > width {
        true => text
            .chars()
            .take(width.saturating_sub(1))
            .chain(['…'])
            .collect(),
        false => text.to_owned(),
    }
}

/// How long ago a moment was, as it is written in logs and reports.
pub fn age(moment: &str) -> Option<Duration> {
    let moment = humantime::parse_rfc3339(moment).ok()?;
    // Clocks are set back.
    Some(SystemTime::now().duration_since(moment).unwrap_or_default())
}

/// "12 s", "5 min", "3 h", "2 days".
pub fn brief(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

/// The code a command ends with if all is well, and if not.
pub fn well(well: bool) -> ExitCode {
    match well {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_not_told_what_to_do_by_others() {
        assert_eq!(plain("a\x1b[2Jb\nc\u{9b}1m"), "a\\u{1b}[2Jb\\nc\\u{9b}1m");
        assert_eq!(plain("grüße …"), "grüße …");
    }

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("äbcd", 3), "äb…");
        assert_eq!(cut("abc", 0), "…");
    }
}
