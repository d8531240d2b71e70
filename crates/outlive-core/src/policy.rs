//! The settings of a session, validated, with the defaults of the design.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::label::Label;

/// When a request whose outcome is unknown is sent again after its link died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Never.
    Never,
    /// Only what is safe to repeat: read-only methods, and tools whose annotations say so.
    Safe,
    /// Always, whatever the server says about its tools.
    Always,
}

/// What one caller wants of one request, where that differs from the [`Policy`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// In place of [`Policy::request_timeout`].
    pub idle: Option<Duration>,
    /// In place of [`Policy::request_ceiling`].
    pub total: Option<Duration>,
    /// In place of [`Policy::retry`].
    pub retry: Option<Retry>,
}

/// What happens to the host's cancellations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancel {
    /// They are passed on.
    Forward,
    /// They are kept from the server; its late answers are dropped.
    Absorb,
    /// They are passed on until this server has died of one, then absorbed.
    Auto,
}

/// Restart delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The delay before the second restart in a row; the first is immediate.
    pub base: Duration,
    /// No delay is longer.
    pub cap: Duration,
}

/// When to stop restarting for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Breaker {
    /// This many failed generations within the window open the breaker.
    pub failures: u32,
    /// The time within which failures are counted.
    pub window: Duration,
    /// A link that was in service this long was healthy: its end counts as a first one.
    pub healthy_after: Duration,
    /// While open, the server is tried again this often without being asked.
    pub retry: Duration,
}

/// How a silent server is found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Liveness {
    /// Probe after this much silence while nothing is in flight; `None`: never.
    pub interval: Option<Duration>,
    /// A server that leaves a probe and everything else unanswered this long is unresponsive.
    pub patience: Duration,
    /// A process shown as stopped for this long is given up.
    pub stopped_patience: Duration,
    /// For this long after a forwarded cancellation the server is watched closely.
    pub cancel_watch: Duration,
}

/// Bounds by count and bytes. More may come: start from [`Limits::default`], and set the fields that differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The longest message, in bytes, in either direction.
    pub message: usize,
    /// Requests in flight at once. Further ones are queued ([`held`](Limits::held)); when the queue is full too, the
    /// host is not read.
    pub in_flight: usize,
    /// Bytes of requests in flight at once, with the same consequence.
    pub in_flight_bytes: usize,
    /// Requests held while there is no server, or while as many are in flight as may be.
    pub held: usize,
    /// Bytes of messages held meanwhile.
    pub held_bytes: usize,
    /// Ids of cancelled and expired requests remembered per link.
    pub tombstones: usize,
    /// Requests of the server that the host has not answered.
    pub asks: usize,
    /// Resource subscriptions remembered for replay.
    pub subscriptions: usize,
    /// Lines of standard error kept for error messages.
    pub stderr_lines: usize,
    /// Bytes of standard error kept for error messages.
    pub stderr_bytes: usize,
}

/// How a session behaves.
///
/// More settings may come: it is made by [`Policy::builder`], which refuses what makes no sense, or by setting fields
/// of [`Policy::default`].
///
/// ```
/// use std::time::Duration;
///
/// use outlive_core::policy::{Limits, Policy};
///
/// let mut limits = Limits::default();
/// limits.held = 16;
/// let policy = Policy::builder()
///     .hold(Duration::from_secs(5))
///     .limits(limits)
///     .build()
///     .expect("these make sense");
/// assert_eq!(policy.limits.held, 16);
///
/// let wrong = Policy::builder().start_hard(Duration::ZERO).build().unwrap_err();
/// assert_eq!(wrong.to_string(), "`Policy::start_hard` is 0: no server starts in no time");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Policy {
    /// The server's command or address for messages, secrets masked.
    pub label: Arc<str>,
    /// What the server is called where it is one of several: sentences about it then say its name.
    pub name: Option<Arc<str>>,
    /// How long a request waits for a server that is down.
    pub hold: Duration,
    /// When requests are repeated.
    pub retry: Retry,
    /// What happens to cancellations.
    pub cancel: Cancel,
    /// A start that takes longer is reported.
    pub start_soft: Duration,
    /// A first start that takes longer is given up.
    pub start_hard: Duration,
    /// A replayed handshake that takes longer is given up.
    pub handshake: Duration,
    /// A host's `server/discover` that takes longer is answered as unsupported, so that the
    /// host falls back to `initialize`.
    pub discover: Duration,
    /// A request silent for this long fails; progress re-arms it. `None`: never.
    pub request_timeout: Option<Duration>,
    /// A request that takes longer fails, progress or not. `None`: never.
    pub request_ceiling: Option<Duration>,
    /// While a person answers an elicitation, the clocks of the requests in flight stand still, but
    /// no longer than this.
    pub elicitation: Duration,
    /// Restart delays.
    pub backoff: Backoff,
    /// The limit on restarts.
    pub breaker: Breaker,
    /// How silence is judged.
    pub liveness: Liveness,
    /// Bounds.
    pub limits: Limits,
    /// How long a server may take to leave after its input was closed.
    pub stop_grace: Duration,
    /// How long it may then take to leave after `SIGTERM`.
    pub term_grace: Duration,
    /// How long accepted requests may take once the host has left or the session is stopped.
    pub drain: Duration,
    /// This server is known to end when asked `server/discover`: answer for it.
    pub refuse_discover: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            message: 64 << 20,
            in_flight: 4096,
            in_flight_bytes: 64 << 20,
            held: 1024,
            held_bytes: 64 << 20,
            tombstones: 4096,
            asks: 1024,
            subscriptions: 4096,
            stderr_lines: 20,
            stderr_bytes: 8 << 10,
        }
    }
}

/// The shortest limit on messages that a handshake fits into.
const SHORTEST_MESSAGE: usize = 1024;

impl Policy {
    /// A policy to be, with the defaults.
    pub fn builder() -> Builder {
        Builder(Policy::default())
    }

    /// What the server is called in causes.
    pub fn server_label(&self) -> Label {
        Label::new(self.label.clone(), self.name.clone())
    }

    /// Whether the settings make sense together; if not, the first that does not.
    pub fn check(&self) -> Result<(), PolicyError> {
        let zero = |time: Option<Duration>| time == Some(Duration::ZERO);
        let wrong = [
            (
                self.limits.message < SHORTEST_MESSAGE,
                "Limits::message",
                "is below 1 KiB: not even a handshake fits",
            ),
            (
                self.limits.in_flight == 0,
                "Limits::in_flight",
                "is 0: no request could ever be sent",
            ),
            (
                self.limits.in_flight_bytes == 0,
                "Limits::in_flight_bytes",
                "is 0: no request could ever be sent",
            ),
            (
                self.breaker.failures == 0,
                "Breaker::failures",
                "is 0: the server would never be started",
            ),
            (
                self.breaker.window.is_zero(),
                "Breaker::window",
                "is 0: the breaker could never open",
            ),
            (
                self.breaker.retry.is_zero(),
                "Breaker::retry",
                "is 0: a broken server would be started without a pause",
            ),
            (
                self.backoff.cap < self.backoff.base,
                "Backoff::cap",
                "is below `Backoff::base`: the first delay would be longer than the longest",
            ),
            (
                self.start_hard.is_zero(),
                "Policy::start_hard",
                "is 0: no server starts in no time",
            ),
            (
                self.handshake.is_zero(),
                "Policy::handshake",
                "is 0: no server answers in no time",
            ),
            (
                self.discover.is_zero(),
                "Policy::discover",
                "is 0: no server answers in no time",
            ),
            (
                self.liveness.patience.is_zero(),
                "Liveness::patience",
                "is 0: no server answers in no time",
            ),
            (
                zero(self.liveness.interval),
                "Liveness::interval",
                "is 0: for no probes it is `None`",
            ),
            (
                zero(self.request_timeout),
                "Policy::request_timeout",
                "is 0: for no limit it is `None`",
            ),
            (
                zero(self.request_ceiling),
                "Policy::request_ceiling",
                "is 0: for no limit it is `None`",
            ),
        ];
        match wrong.into_iter().find(|(is_wrong, ..)| *is_wrong) {
            Some((_, setting, why)) => Err(PolicyError { setting, why }),
            None => Ok(()),
        }
    }
}

/// A setting that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyError {
    setting: &'static str,
    why: &'static str,
}

impl PolicyError {
    /// Which one, such as `Policy::handshake`.
    pub fn setting(&self) -> &'static str {
        self.setting
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.setting, self.why)
    }
}

impl std::error::Error for PolicyError {}

/// Builds a [`Policy`].
#[derive(Clone, Debug)]
#[must_use = "it is built by `build`"]
pub struct Builder(Policy);

macro_rules! setters {
    ($($name:ident: $type:ty;)*) => {
        $(
            #[doc = concat!("Sets [`Policy::", stringify!($name), "`].")]
            pub fn $name(mut self, $name: $type) -> Builder {
                self.0.$name = $name;
                self
            }
        )*
    };
}

impl Builder {
    setters! {
        label: Arc<str>;
        hold: Duration;
        retry: Retry;
        cancel: Cancel;
        start_soft: Duration;
        start_hard: Duration;
        handshake: Duration;
        discover: Duration;
        request_timeout: Option<Duration>;
        request_ceiling: Option<Duration>;
        elicitation: Duration;
        backoff: Backoff;
        breaker: Breaker;
        liveness: Liveness;
        limits: Limits;
        stop_grace: Duration;
        term_grace: Duration;
        drain: Duration;
        refuse_discover: bool;
    }

    /// The policy, or what makes no sense in it.
    pub fn build(self) -> Result<Policy, PolicyError> {
        self.0.check()?;
        Ok(self.0)
    }
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            label: "the server".into(),
            name: None,
            hold: Duration::from_secs(30),
            retry: Retry::Safe,
            cancel: Cancel::Auto,
            start_soft: Duration::from_secs(60),
            start_hard: Duration::from_secs(300),
            handshake: Duration::from_secs(60),
            discover: Duration::from_secs(30),
            request_timeout: None,
            request_ceiling: None,
            elicitation: Duration::from_secs(600),
            backoff: Backoff {
                base: Duration::from_millis(200),
                cap: Duration::from_secs(15),
            },
            breaker: Breaker {
                failures: 8,
                window: Duration::from_secs(60),
                healthy_after: Duration::from_secs(10),
                retry: Duration::from_secs(30),
            },
            liveness: Liveness {
                interval: Some(Duration::from_secs(30)),
                patience: Duration::from_secs(30),
                stopped_patience: Duration::from_secs(2),
                cancel_watch: Duration::from_secs(30),
            },
            limits: Limits::default(),
            stop_grace: Duration::from_secs(2),
            term_grace: Duration::from_secs(3),
            drain: Duration::from_secs(1),
            refuse_discover: false,
        }
    }
}
