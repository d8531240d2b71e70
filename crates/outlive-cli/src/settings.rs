//! The settings of `outlive run`, which are also settings of `outlive serve`: each is defined once, here.
//!
//! A setting `--some-name` is also the variable `OUTLIVE_SOME_NAME` and the key `some-name` of the
//! file given with `--config`. A flag wins over a variable, a variable over the file, the file over
//! the default: what the file says simply takes the place of the default (see [`crate::config`]).

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{Args, ValueEnum};
use outlive_core::policy::{self, Policy};

use crate::instance::name;
use crate::remote::RemoteSettings;
use crate::servers::ServersSettings;
use crate::units::{MaybeDuration, duration, duration_or_off, size};

/// What a flag's value is called in the help.
const DURATION: &str = "DURATION";

// No doc comment and no usage: they would become those of every command these are settings of.
#[allow(missing_docs)]
#[derive(Args, Clone, Debug)]
pub struct Settings {
    /// The server: a program and its arguments, or an address.
    #[arg(trailing_var_arg = true, value_name = "COMMAND", num_args = 1..)]
    pub command: Vec<OsString>,

    /// Fail a request that has waited this long for a server that is down.
    #[arg(
        long,
        env = "OUTLIVE_HOLD",
        value_name = DURATION,
        default_value = "30s",
        value_parser = duration,
        help_heading = "Calls",
    )]
    pub hold: Duration,

    /// Hold at most this many requests while the server is down; fail the others at once.
    #[arg(
        long,
        env = "OUTLIVE_MAX_HELD",
        value_name = "N",
        default_value = "1024",
        help_heading = "Calls"
    )]
    pub max_held: usize,

    /// Hold at most this many bytes of requests while the server is down; fail the others at once.
    #[arg(
        long,
        env = "OUTLIVE_MAX_HELD_BYTES",
        value_name = "SIZE",
        default_value = "64MiB",
        value_parser = size,
        help_heading = "Calls",
    )]
    pub max_held_bytes: usize,

    /// Which calls to send again if the server died while they ran, so that nobody knows whether they took effect.
    #[arg(
        long,
        env = "OUTLIVE_RETRY",
        value_enum,
        default_value = "safe",
        help_heading = "Calls"
    )]
    pub retry: Retry,

    /// What to do with the host's cancellations.
    #[arg(
        long,
        env = "OUTLIVE_CANCEL",
        value_enum,
        default_value = "auto",
        help_heading = "Calls"
    )]
    pub cancel: Cancel,

    /// Fail a request that has brought neither an answer nor progress for this long.
    #[arg(
        long,
        env = "OUTLIVE_REQUEST_TIMEOUT",
        value_name = "DURATION|off",
        default_value = "off",
        value_parser = duration_or_off,
        help_heading = "Calls",
    )]
    pub request_timeout: MaybeDuration,

    /// Fail a request that takes longer than this, with or without progress.
    #[arg(
        long,
        env = "OUTLIVE_REQUEST_CEILING",
        value_name = "DURATION|off",
        default_value = "off",
        value_parser = duration_or_off,
        help_heading = "Calls",
    )]
    pub request_ceiling: MaybeDuration,

    /// Stop the clocks of --request-timeout and --request-ceiling while a person answers a question of the server, for
    /// at most this long.
    #[arg(
        long,
        env = "OUTLIVE_ELICITATION_CEILING",
        value_name = DURATION,
        default_value = "10m",
        value_parser = duration,
        help_heading = "Calls",
    )]
    pub elicitation_ceiling: Duration,

    /// Report a start that takes longer than this.
    #[arg(
        long,
        env = "OUTLIVE_START_SOFT",
        value_name = DURATION,
        default_value = "60s",
        value_parser = duration,
        help_heading = "Starting",
    )]
    pub start_soft: Duration,

    /// Give up a first start that takes longer than this.
    #[arg(
        long,
        env = "OUTLIVE_START_TIMEOUT",
        value_name = DURATION,
        default_value = "300s",
        value_parser = duration,
        help_heading = "Starting",
    )]
    pub start_timeout: Duration,

    /// Give up the handshake with a restarted server if it takes longer than this.
    #[arg(
        long,
        env = "OUTLIVE_HANDSHAKE_TIMEOUT",
        value_name = DURATION,
        default_value = "60s",
        value_parser = duration,
        help_heading = "Starting",
    )]
    pub handshake_timeout: Duration,

    /// Answer `server/discover` as unsupported if the server takes longer than this.
    #[arg(
        long,
        env = "OUTLIVE_DISCOVER_TIMEOUT",
        value_name = DURATION,
        default_value = "30s",
        value_parser = duration,
        help_heading = "Starting",
    )]
    pub discover_timeout: Duration,

    /// Delay before the second restart in a row; the first is immediate, and each further one doubles the delay.
    #[arg(
        long,
        env = "OUTLIVE_BACKOFF_BASE",
        value_name = DURATION,
        default_value = "200ms",
        value_parser = duration,
        help_heading = "Restarts",
    )]
    pub backoff_base: Duration,

    /// Longest delay before a restart.
    #[arg(
        long,
        env = "OUTLIVE_BACKOFF_CAP",
        value_name = DURATION,
        default_value = "15s",
        value_parser = duration,
        help_heading = "Restarts",
    )]
    pub backoff_cap: Duration,

    /// Open the circuit breaker after this many failures within --breaker-window.
    #[arg(
        long,
        env = "OUTLIVE_BREAKER_FAILURES",
        value_name = "N",
        default_value = "8",
        help_heading = "Restarts"
    )]
    pub breaker_failures: u32,

    /// Time window for counting failures.
    #[arg(
        long,
        env = "OUTLIVE_BREAKER_WINDOW",
        value_name = DURATION,
        default_value = "60s",
        value_parser = duration,
        help_heading = "Restarts",
    )]
    pub breaker_window: Duration,

    /// Try the server this often while the breaker is open, also if nobody calls.
    #[arg(
        long,
        env = "OUTLIVE_BREAKER_RETRY",
        value_name = DURATION,
        default_value = "30s",
        value_parser = duration,
        help_heading = "Restarts",
    )]
    pub breaker_retry: Duration,

    /// Count a server as healthy after this long in service; its end is then the first failure in a row again.
    #[arg(
        long,
        env = "OUTLIVE_HEALTHY_AFTER",
        value_name = DURATION,
        default_value = "10s",
        value_parser = duration,
        help_heading = "Restarts",
    )]
    pub healthy_after: Duration,

    /// Exit with code 3 when the breaker opens.
    #[arg(long, env = "OUTLIVE_EXIT_ON_FAILED", value_parser = BoolishValueParser::new(), help_heading = "Restarts")]
    pub exit_on_failed: bool,

    /// Probe an idle server after this much silence.
    #[arg(
        long,
        env = "OUTLIVE_PROBE_INTERVAL",
        value_name = "DURATION|off",
        default_value = "30s",
        value_parser = duration_or_off,
        help_heading = "Liveness",
    )]
    pub probe_interval: MaybeDuration,

    /// Replace a server that has left a probe unanswered for this long.
    #[arg(
        long,
        env = "OUTLIVE_PROBE_PATIENCE",
        value_name = DURATION,
        default_value = "30s",
        value_parser = duration,
        help_heading = "Liveness",
    )]
    pub probe_patience: Duration,

    #[command(flatten)]
    pub remote: RemoteSettings,

    #[command(flatten)]
    pub several: ServersSettings,

    /// Longest message, in either direction.
    #[arg(
        long,
        env = "OUTLIVE_MESSAGE_LIMIT",
        value_name = "SIZE",
        default_value = "64MiB",
        value_parser = size,
        help_heading = "Limits",
    )]
    pub message_limit: usize,

    /// Requests beyond this number are queued; when the queue is full, outlive stops reading from the host.
    #[arg(
        long,
        env = "OUTLIVE_MAX_IN_FLIGHT",
        value_name = "N",
        default_value = "4096",
        help_heading = "Limits"
    )]
    pub max_in_flight: usize,

    /// Requests beyond this many bytes are queued; when the queue is full, outlive stops reading from the host.
    #[arg(
        long,
        env = "OUTLIVE_MAX_IN_FLIGHT_BYTES",
        value_name = "SIZE",
        default_value = "64MiB",
        value_parser = size,
        help_heading = "Limits",
    )]
    pub max_in_flight_bytes: usize,

    /// Wait this long for accepted requests once the host has left.
    #[arg(
        long,
        env = "OUTLIVE_DRAIN",
        value_name = DURATION,
        default_value = "1s",
        value_parser = duration,
        help_heading = "Stopping",
    )]
    pub drain: Duration,

    /// Send SIGTERM if the server has not exited this long after its input was closed.
    #[arg(
        long,
        env = "OUTLIVE_STOP_GRACE",
        value_name = DURATION,
        default_value = "2s",
        value_parser = duration,
        help_heading = "Stopping",
    )]
    pub stop_grace: Duration,

    /// Send SIGKILL this long after SIGTERM.
    #[arg(
        long,
        env = "OUTLIVE_TERM_GRACE",
        value_name = DURATION,
        default_value = "3s",
        value_parser = duration,
        help_heading = "Stopping",
    )]
    pub term_grace: Duration,

    /// Where the server's standard error goes: `inherit`, `capture` (only quoted in error messages) or a file to
    /// append to.
    #[arg(
        long,
        env = "OUTLIVE_STDERR",
        value_name = "inherit|capture|FILE",
        default_value = "inherit",
        help_heading = "Output"
    )]
    pub stderr: PathBuf,

    /// Format of log lines.
    #[arg(
        long,
        env = "OUTLIVE_LOG_FORMAT",
        value_enum,
        default_value = "text",
        help_heading = "Output"
    )]
    pub log_format: LogFormat,

    /// Append events to this file instead of standard error.
    #[arg(
        long,
        env = "OUTLIVE_LOG_FILE",
        value_name = "FILE",
        help_heading = "Output"
    )]
    pub log_file: Option<PathBuf>,

    /// Which events to log.
    #[arg(
        long,
        env = "OUTLIVE_LOG_LEVEL",
        value_enum,
        default_value = "normal",
        help_heading = "Output"
    )]
    pub log_level: LogLevel,

    /// Name of this session in `outlive status` and `outlive logs`; without it, one is taken from the command or the
    /// address.
    #[arg(
        long,
        env = "OUTLIVE_NAME",
        value_name = "NAME",
        value_parser = name::chosen,
        help_heading = "Output"
    )]
    pub name: Option<String>,

    /// Keep no events for `outlive logs`.
    #[arg(long, env = "OUTLIVE_NO_KEEP_LOGS", value_parser = BoolishValueParser::new(), help_heading = "Output")]
    pub no_keep_logs: bool,

    /// A TOML file with settings: `hold = "10s"`, `command = ["npx", "-y", "some-server"]`.
    #[arg(long, env = "OUTLIVE_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// The usage of `outlive run`.
pub const USAGE: &str = "outlive run [OPTIONS] -- COMMAND [ARGS]...\n       outlive run [OPTIONS] URL\n       \
     outlive run [OPTIONS] --servers FILE";

/// What follows the help of `outlive run`.
pub const EXAMPLES: &str = "\
Examples:
  outlive run -- npx -y @modelcontextprotocol/server-everything
  outlive run --hold 10s --retry never -- python server.py
  outlive run --header 'Authorization: Bearer ${TOKEN}' https://example.com/mcp
  outlive run --servers ~/.cursor/mcp.json
  outlive run --log-format json --log-file outlive.log -- ./server
  OUTLIVE_REQUEST_TIMEOUT=2m outlive run --config outlive.toml

Signals:
  SIGTERM, SIGINT   stop: accepted requests may finish; a second one stops at once
  SIGHUP            restart the server under the same session

Exit codes:
  0   the host left, or a signal stopped the session
  2   a setting or the usage was wrong
  3   the server kept failing, and --exit-on-failed was given";

/// See [`policy::Retry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Retry {
    /// None
    Never,
    /// Read-only methods, and tools whose annotations say that repeating is safe
    Safe,
    /// All
    Always,
}

/// See [`policy::Cancel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Cancel {
    /// Pass them on
    Forward,
    /// Keep them from the server, and drop its late answers
    Absorb,
    /// Pass them on until this server has died of one, then absorb
    Auto,
}

/// How events are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Sentences
    Text,
    /// One JSON object per line
    Json,
}

/// Which events are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// Only failures that need somebody: the server keeps failing
    Quiet,
    /// What a person would want to see
    Normal,
    /// All
    Debug,
}

impl Settings {
    /// The policy these settings describe, or why they make none.
    pub fn policy(&self) -> Result<Policy, String> {
        self.check()?;
        let mut policy = Policy::default();
        policy.hold = self.hold;
        policy.retry = match self.retry {
            Retry::Never => policy::Retry::Never,
            Retry::Safe => policy::Retry::Safe,
            Retry::Always => policy::Retry::Always,
        };
        policy.cancel = match self.cancel {
            Cancel::Forward => policy::Cancel::Forward,
            Cancel::Absorb => policy::Cancel::Absorb,
            Cancel::Auto => policy::Cancel::Auto,
        };
        policy.start_soft = self.start_soft.min(self.start_timeout);
        policy.start_hard = self.start_timeout;
        policy.handshake = self.handshake_timeout;
        policy.discover = self.discover_timeout;
        policy.request_timeout = self.request_timeout.0;
        policy.request_ceiling = self.request_ceiling.0;
        policy.elicitation = self.elicitation_ceiling;
        policy.backoff = policy::Backoff {
            base: self.backoff_base,
            cap: self.backoff_cap,
        };
        policy.breaker = policy::Breaker {
            failures: self.breaker_failures,
            window: self.breaker_window,
            healthy_after: self.healthy_after,
            retry: self.breaker_retry,
        };
        policy.stop_grace = self.stop_grace;
        policy.term_grace = self.term_grace;
        policy.drain = self.drain;
        policy.liveness.interval = self.probe_interval.0;
        policy.liveness.patience = self.probe_patience;
        policy.limits.message = self.message_limit;
        policy.limits.in_flight = self.max_in_flight;
        policy.limits.in_flight_bytes = self.max_in_flight_bytes;
        policy.limits.held = self.max_held;
        policy.limits.held_bytes = self.max_held_bytes;
        Ok(policy)
    }

    /// What a single value cannot tell: whether the settings make sense.
    fn check(&self) -> Result<(), String> {
        let zero = [
            (
                "max-in-flight",
                self.max_in_flight == 0,
                "no request could ever be sent",
            ),
            (
                "max-in-flight-bytes",
                self.max_in_flight_bytes == 0,
                "no request could ever be sent",
            ),
            (
                "breaker-failures",
                self.breaker_failures == 0,
                "the server would never be started",
            ),
            (
                "breaker-window",
                self.breaker_window.is_zero(),
                "the breaker could never open",
            ),
            (
                "breaker-retry",
                self.breaker_retry.is_zero(),
                "a broken server would be started without a pause",
            ),
            (
                "start-timeout",
                self.start_timeout.is_zero(),
                "no server starts in no time",
            ),
            (
                "handshake-timeout",
                self.handshake_timeout.is_zero(),
                "no server answers in no time",
            ),
            (
                "discover-timeout",
                self.discover_timeout.is_zero(),
                "no server answers in no time",
            ),
            (
                "probe-patience",
                self.probe_patience.is_zero(),
                "no server answers in no time",
            ),
            (
                "probe-interval",
                self.probe_interval.0 == Some(Duration::ZERO),
                "use \"off\" for no probes",
            ),
            (
                "request-timeout",
                self.request_timeout.0 == Some(Duration::ZERO),
                "use \"off\" for no limit",
            ),
            (
                "request-ceiling",
                self.request_ceiling.0 == Some(Duration::ZERO),
                "use \"off\" for no limit",
            ),
        ];
        if let Some((name, _, why)) = zero.iter().find(|(_, is_zero, _)| *is_zero) {
            return Err(format!("{name} is 0: {why}"));
        }
        let contrary = [
            (
                self.message_limit < 1024,
                "message-limit is below 1KiB: not even a handshake fits",
            ),
            (
                self.backoff_cap < self.backoff_base,
                "backoff-cap is below backoff-base: the first delay would be longer than the longest",
            ),
            (
                (self.request_timeout.0.zip(self.request_ceiling.0))
                    .is_some_and(|(timeout, ceiling)| ceiling < timeout),
                "request-ceiling is below request-timeout: the timeout could never be reached",
            ),
        ];
        match contrary.iter().find(|(is_contrary, _)| *is_contrary) {
            Some((_, why)) => Err((*why).into()),
            None => Ok(()),
        }
    }
}
