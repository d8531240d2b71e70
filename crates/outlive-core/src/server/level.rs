//! Severities of log messages.

/// How severe a log message is (RFC 5424), least severe first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Detailed information for debugging.
    Debug,
    /// General information.
    Info,
    /// Normal but significant.
    Notice,
    /// A warning.
    Warning,
    /// Something failed.
    Error,
    /// A part of the system failed.
    Critical,
    /// Somebody must act at once.
    Alert,
    /// The system is unusable.
    Emergency,
}

impl Level {
    /// All of them, least severe first.
    pub const ALL: [Level; 8] = [
        Level::Debug,
        Level::Info,
        Level::Notice,
        Level::Warning,
        Level::Error,
        Level::Critical,
        Level::Alert,
        Level::Emergency,
    ];

    /// The word for it on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Notice => "notice",
            Level::Warning => "warning",
            Level::Error => "error",
            Level::Critical => "critical",
            Level::Alert => "alert",
            Level::Emergency => "emergency",
        }
    }

    /// The level of that name.
    pub fn of(name: &str) -> Option<Level> {
        Level::ALL.into_iter().find(|level| level.as_str() == name)
    }
}
