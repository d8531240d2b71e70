//! Colours on a terminal.

use outlive_check::Level;

/// Colours, or none.
#[derive(Clone, Copy, Debug)]
pub struct Paint(bool);

/// What a colour is for.
#[derive(Clone, Copy, Debug)]
pub enum Tone {
    Plain,
    Title,
    Good,
    Bad,
    Doubtful,
    Quiet,
}

impl Tone {
    /// The tone of a broken scenario.
    pub fn of(level: Level) -> Tone {
        match level {
            Level::Must => Tone::Bad,
            Level::Should | Level::Advice => Tone::Doubtful,
        }
    }
}

impl Paint {
    /// Colours for a terminal, unless its owner wants none.
    pub fn when(terminal: bool) -> Paint {
        Paint(terminal && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty()))
    }

    /// The text in its colour.
    pub fn tone(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Plain => return text.to_owned(),
            Tone::Title => "1",
            Tone::Good => "32",
            Tone::Bad => "1;31",
            Tone::Doubtful => "33",
            Tone::Quiet => "2",
        };
        match self.0 && !text.is_empty() {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }
}
