//! Events as lines for people and programs.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use outlive::gateway::Watcher;
use outlive::{Observer, Secrets};
use outlive_core::{Event, State, Time};
use serde_json::{Value, json};

use crate::eras::Eras;
use crate::flood::Flood;
use crate::scribe::Scribe;
use crate::settings::{LogFormat, LogLevel, Settings};

/// Writes the events of a session, and the server's standard error, where the settings say.
#[derive(Debug)]
pub struct Log {
    format: LogFormat,
    level: LogLevel,
    colour: bool,
    /// In a file, which is read later and may have several writers, each line says when and who.
    to_file: bool,
    events: Scribe,
    dropped: Flood,
    /// `None`: the server's standard error is only kept for error messages.
    stderr: Option<Scribe>,
    secrets: Secrets,
    eras: Eras,
}

impl Log {
    /// A log as the settings say; a file that cannot be opened is a reason not to start.
    pub fn open(settings: &Settings, secrets: Secrets, eras: Eras) -> Result<Log, String> {
        let ours = Scribe::new(io::stderr()).map_err(|error| error.to_string())?;
        let events = match &settings.log_file {
            Some(path) => scribe(path)?,
            None => ours.clone(),
        };
        let stderr = match settings.stderr.to_str() {
            Some("inherit") => Some(ours),
            Some("capture") => None,
            _ => Some(scribe(&settings.stderr)?),
        };
        let to_terminal = settings.log_file.is_none() && io::stderr().is_terminal();
        let colour =
            to_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Ok(Log {
            format: settings.log_format,
            level: settings.log_level,
            colour,
            to_file: settings.log_file.is_some(),
            events,
            dropped: Flood::default(),
            stderr,
            secrets,
            eras,
        })
    }

    fn wants(&self, event: &Event) -> bool {
        match self.level {
            LogLevel::Quiet => matches!(event, Event::State(State::Failed { .. })),
            LogLevel::Normal => {
                event.is_notable()
                    && (event.name() != "dropped" || self.dropped.admits(Instant::now()))
            }
            LogLevel::Debug => true,
        }
    }

    /// Writes an event of the only server there is, or of one of several.
    fn write(&self, upstream: Option<u64>, now: Time, event: &Event) {
        if *event == Event::LegacyOnly {
            self.eras.remember();
        }
        if self.wants(event) {
            self.tell_untold();
            let line = match self.format {
                LogFormat::Text => self.placed(text(event, upstream, self.colour)),
                LogFormat::Json => {
                    let mut data = event.to_json(now);
                    if let Some(upstream) = upstream {
                        data["upstream"] = json!(upstream);
                    }
                    dated(&data, SystemTime::now())
                }
            };
            self.events.line(&self.secrets.mask(&line));
        }
    }

    /// Says how many messages were dropped without a line of their own.
    fn tell_untold(&self) {
        let count = self.dropped.untold();
        if count > 0 {
            let sentence =
                format!("dropped {count} more messages (--log-level debug shows each of them)");
            self.note(&sentence, "more_dropped", json!({ "count": count }));
        }
    }

    /// Writes something about ourselves: a sentence, and the same as data with its name.
    pub fn note(&self, sentence: &str, name: &str, mut data: Value) {
        if self.level == LogLevel::Quiet {
            return;
        }
        let line = match self.format {
            LogFormat::Text => self.placed(format!("outlive: {sentence}")),
            LogFormat::Json => {
                data["event"] = json!(name);
                dated(&data, SystemTime::now())
            }
        };
        self.events.line(&self.secrets.mask(&line));
    }

    fn placed(&self, line: String) -> String {
        match self.to_file {
            true => format!(
                "{} [{}] {line}",
                timestamp(SystemTime::now()),
                std::process::id()
            ),
            false => line,
        }
    }

    fn stderr_line(&self, line: &str) {
        if let Some(stderr) = &self.stderr {
            stderr.line(line);
        }
    }

    /// Waits until everything is written, but not for ever.
    pub fn finish(&self) {
        self.tell_untold();
        self.events.finish();
        if let Some(stderr) = &self.stderr {
            stderr.finish();
        }
    }
}

impl Observer for Log {
    fn event(&mut self, now: Time, event: &Event) {
        self.write(None, now, event);
    }

    fn stderr(&mut self, line: &str) {
        self.stderr_line(line);
    }
}

impl Watcher for Log {
    fn event(&self, upstream: u64, now: Time, event: &Event) {
        self.write(Some(upstream), now, event);
    }

    fn stderr(&self, _upstream: u64, line: &str) {
        self.stderr_line(line);
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.finish();
    }
}

fn scribe(path: &Path) -> Result<Scribe, String> {
    let open =
        |path| -> io::Result<File> { OpenOptions::new().create(true).append(true).open(path) };
    open(path)
        .and_then(Scribe::new)
        .map_err(|error| format!("cannot write to {}: {error}", path.display()))
}

/// `outlive: <sentence>`, with the number of the server if there are several; on a terminal what is bad
/// is red and what is good is green.
fn text(event: &Event, upstream: Option<u64>, colour: bool) -> String {
    let whose = upstream.map_or(String::new(), |number| format!("[{number}] "));
    let code = match event {
        Event::State(State::Failed { .. }) | Event::Lost { .. } => 31,
        Event::State(State::Ready { .. }) | Event::Connected { .. } => 32,
        _ => 2,
    };
    match colour {
        true => format!("\x1b[{code}moutlive: {whose}{event}\x1b[0m"),
        false => format!("outlive: {whose}{event}"),
    }
}

/// The data of an event after the time.
fn dated(data: &Value, clock: SystemTime) -> String {
    let data = data.to_string();
    // It is an object that is never empty: its name is in it.
    format!("{{\"time\":\"{}\",{}", timestamp(clock), &data[1..])
}

/// RFC 3339 in UTC with milliseconds.
fn timestamp(clock: SystemTime) -> String {
    let since = clock.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let milli = since.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

/// Year, month and day of a day counted from 1970-01-01. Years begin in March in between, so
/// that the leap day is their last (Howard Hinnant's `civil_from_days`).
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlive_core::Generation;
    use std::time::Duration;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn timestamps() {
        assert_eq!(timestamp(at(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(timestamp(at(951_782_400)), "2000-02-29T00:00:00.000Z");
        assert_eq!(timestamp(at(951_868_799)), "2000-02-29T23:59:59.000Z");
        assert_eq!(timestamp(at(4_107_542_400)), "2100-03-01T00:00:00.000Z");
        assert_eq!(timestamp(at(1_735_689_599)), "2024-12-31T23:59:59.000Z");
        let late = at(1) + Duration::from_millis(7);
        assert_eq!(timestamp(late), "1970-01-01T00:00:01.007Z");
    }

    #[test]
    fn json_lines_begin_with_the_time() {
        let event = Event::State(State::Ready {
            generation: Generation::FIRST,
        });
        let line = dated(&event.to_json(Time::ZERO), at(0));
        assert!(
            line.starts_with(r#"{"time":"1970-01-01T00:00:00.000Z","#),
            "{line}"
        );
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["event"], "state");
        assert_eq!(value["state"], "ready");
        assert_eq!(value["generation"], 1);
    }

    #[test]
    fn text_lines_are_coloured_only_where_asked() {
        let event = Event::Connected {
            generation: Generation::FIRST,
            server: None,
        };
        assert_eq!(
            text(&event, None, false),
            "outlive: connected (generation 1)"
        );
        assert_eq!(
            text(&event, Some(7), false),
            "outlive: [7] connected (generation 1)"
        );
        assert_eq!(
            text(&event, None, true),
            "\x1b[32moutlive: connected (generation 1)\x1b[0m"
        );
    }
}
