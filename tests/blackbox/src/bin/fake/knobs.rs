//! How a fake server misbehaves, as told on its command line.

use std::path::PathBuf;
use std::time::Duration;

/// How lines are framed on the way out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// LF, as the specification says.
    #[default]
    Lf,
    /// CR LF.
    CrLf,
    /// A byte order mark before the first line.
    Bom,
    /// A blank line after each line.
    Blank,
    /// Headers as in the Language Server Protocol.
    ContentLength,
}

/// What the server does when a cancellation reaches it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnCancel {
    /// It stops the handler and answers nothing.
    #[default]
    Stop,
    /// It exits with a traceback on standard error.
    Die,
    /// It stops answering, looks alive, and exits when the next line arrives.
    LookAlive,
    /// As mcp 1.x: it answers with an error at once, and dies when it has read another ping, which it does not answer.
    /// Then it looks alive, and exits when the next line arrives.
    DieLater,
    /// It answers with an error at once, and lets the handler answer too.
    AnswerTwice,
}

/// All knobs.
#[derive(Debug, Default)]
pub struct Knobs {
    /// Where to record what happens; see `tap`.
    pub state: Option<PathBuf>,
    /// The faults `exit_at_start` and `exit_after_ready` hold only while this file exists.
    pub only_while: Option<PathBuf>,
    /// Wait this long before reading the first line.
    pub start_delay: Option<Duration>,
    /// Exit with this code before reading anything.
    pub exit_at_start: Option<i32>,
    /// Exit with code 1 this long after `notifications/initialized`.
    pub exit_after_ready: Option<Duration>,
    /// Print this on standard error at the start.
    pub say: Option<String>,
    /// Print this on standard output at the start.
    pub banner: Option<String>,
    /// Never answer `initialize`.
    pub hang_in_initialize: bool,
    /// Answer `initialize` with an error that says this.
    pub refuse_initialize: Option<String>,
    /// Know nothing of `server/discover`.
    pub legacy: bool,
    /// Leave `server/discover` unanswered.
    pub ignore_discover: bool,
    /// Answer `server/discover` only after the first call.
    pub late_discover: bool,
    /// Exit on `server/discover`.
    pub exit_on_discover: bool,
    /// A file whose content (`v1`, `v2`, `v3`, `unhinted`, `none`, `twice`, or `gap`: `none` on the first page and
    /// `unhinted` on the next) says which tools there are.
    pub tools: Option<PathBuf>,
    /// Offer this many tools per page.
    pub page: Option<usize>,
    /// Follow the last page with the second one.
    pub repeat_cursor: bool,
    /// From the second process on, negotiate this protocol version.
    pub version_after_restart: Option<String>,
    /// Leave `ping` unanswered.
    pub ignore_ping: bool,
    /// Answer `ping` with "method not found".
    pub ping_error: bool,
    /// What a cancellation does.
    pub on_cancel: OnCancel,
    /// Answer `resources/unsubscribe` only after the next `resources/subscribe`.
    pub late_unsubscribe: bool,
    /// Live on when standard input ends.
    pub ignore_eof: bool,
    /// Execute calls of the tool `swift` in no time: a line with the id in this file each.
    pub swift: Option<PathBuf>,
    /// End whoever has started us with this many of them, and read on.
    pub unwrap_at: Option<u64>,
    /// Write everything in pieces of one to seven bytes.
    pub trickle: bool,
    /// How lines are framed.
    pub framing: Framing,
}

impl Knobs {
    /// Reads the command line; an unknown knob is an error.
    pub fn parse(mut args: impl Iterator<Item = String>) -> Result<Knobs, String> {
        let mut knobs = Knobs::default();
        while let Some(name) = args.next() {
            let mut value = || args.next().ok_or(format!("{name} needs a value"));
            match name.as_str() {
                "--state" => knobs.state = Some(value()?.into()),
                "--only-while" => knobs.only_while = Some(value()?.into()),
                "--start-delay" => knobs.start_delay = Some(millis(&value()?)?),
                "--exit-at-start" => {
                    knobs.exit_at_start = Some(value()?.parse().map_err(|e| format!("{e}"))?)
                }
                "--exit-after-ready" => knobs.exit_after_ready = Some(millis(&value()?)?),
                "--say" => knobs.say = Some(value()?),
                "--banner" => knobs.banner = Some(value()?),
                "--hang-in-initialize" => knobs.hang_in_initialize = true,
                "--refuse-initialize" => knobs.refuse_initialize = Some(value()?),
                "--legacy" => knobs.legacy = true,
                "--ignore-discover" => knobs.ignore_discover = true,
                "--late-discover" => knobs.late_discover = true,
                "--exit-on-discover" => knobs.exit_on_discover = true,
                "--tools" => knobs.tools = Some(value()?.into()),
                "--page" => knobs.page = Some(value()?.parse().map_err(|e| format!("{e}"))?),
                "--repeat-cursor" => knobs.repeat_cursor = true,
                "--version-after-restart" => knobs.version_after_restart = Some(value()?),
                "--ignore-ping" => knobs.ignore_ping = true,
                "--ping-error" => knobs.ping_error = true,
                "--die-of-cancel" => knobs.on_cancel = OnCancel::Die,
                "--die-of-cancel-but-look-alive" => knobs.on_cancel = OnCancel::LookAlive,
                "--die-of-cancelled-work" => knobs.on_cancel = OnCancel::DieLater,
                "--answer-cancelled" => knobs.on_cancel = OnCancel::AnswerTwice,
                "--ignore-eof" => knobs.ignore_eof = true,
                "--late-unsubscribe" => knobs.late_unsubscribe = true,
                "--swift" => knobs.swift = Some(value()?.into()),
                "--unwrap-at" => {
                    knobs.unwrap_at = Some(value()?.parse().map_err(|e| format!("{e}"))?)
                }
                "--trickle" => knobs.trickle = true,
                "--framing" => {
                    knobs.framing = match value()?.as_str() {
                        "crlf" => Framing::CrLf,
                        "bom" => Framing::Bom,
                        "blank" => Framing::Blank,
                        "content-length" => Framing::ContentLength,
                        other => return Err(format!("no such framing: {other}")),
                    }
                }
                // Anything that stands for a credential on a command line.
                "--token" => drop(value()?),
                other => return Err(format!("no such knob: {other}")),
            }
        }
        Ok(knobs)
    }

    /// Whether the faults that `--only-while` guards hold now.
    pub fn faulty(&self) -> bool {
        self.only_while.as_ref().is_none_or(|file| file.exists())
    }

    /// Which set of tools is on offer.
    pub fn tool_set(&self) -> String {
        self.tools
            .as_ref()
            .and_then(|file| std::fs::read_to_string(file).ok())
            .map_or("v1".into(), |text| text.trim().into())
    }
}

fn millis(text: &str) -> Result<Duration, String> {
    text.parse()
        .map(Duration::from_millis)
        .map_err(|e| format!("{text}: {e}"))
}
