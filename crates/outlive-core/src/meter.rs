//! What sessions count, for whoever looks at them from outside.
//!
//! Theory. Several sessions count into one [`Meter`], and it outlasts them: a session that has ended
//! has still done what it did. Counters only grow. Gauges (what is in flight, held, in which state)
//! hold the sum over the sessions there are; each session takes its part away when it goes.
//! Everything is an atomic number, so a meter can be read at any time from any thread, and counting
//! is a few additions without order among them.
//!
//! Labels are bounded whatever peers say: a method that is none of the protocol's is `other`, and the
//! names of tools are not labels at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::error::TOKEN_WITHDRAWN;
use crate::event::{Direction, DropReason, Event, State, Unexecuted};

/// The methods that are told apart, the most frequent first.
const METHODS: [&str; 21] = [
    "tools/call",
    "tools/list",
    "resources/read",
    "prompts/get",
    "ping",
    "completion/complete",
    "initialize",
    "server/discover",
    "subscriptions/listen",
    "resources/list",
    "resources/templates/list",
    "resources/subscribe",
    "resources/unsubscribe",
    "prompts/list",
    "logging/setLevel",
    "tasks/get",
    "tasks/list",
    "tasks/result",
    "tasks/update",
    "tasks/cancel",
    OTHER,
];

/// Whatever is not told apart.
const OTHER: &str = "other";

/// How a request can end: the server's answer, the client's cancellation, or one of our
/// [kinds](crate::Error::kind).
const RESULTS: [&str; 15] = [
    OK,
    "error",
    CANCELLED,
    ABANDONED,
    "connection_lost",
    "unavailable",
    "timeout",
    "cancelled_by_peer",
    "shutting_down",
    TOKEN_WITHDRAWN,
    "session_expired",
    "rejected",
    "too_large",
    "protocol",
    "unsupported",
];

/// The server has answered with a result.
const OK: &str = "ok";

/// The client has cancelled it.
pub(crate) const CANCELLED: &str = "cancelled_by_caller";

/// The client has left before it was answered.
pub(crate) const ABANDONED: &str = "abandoned";

/// Why links end: the [kinds](crate::Cause::kind) of causes.
const CAUSES: [&str; 16] = [
    "exited",
    "eof",
    "write_error",
    "disconnected",
    "unreachable",
    "unauthorized",
    "session_expired",
    "unanswered",
    "start_timeout",
    "unresponsive",
    "stopped",
    "handshake_refused",
    "version_changed",
    "requested",
    "closing",
    "spawn_failed",
];

const STATES: [&str; 5] = ["connecting", "ready", "down", "failed", "closed"];

const DROPS: [DropReason; 11] = [
    DropReason::NotAMessage,
    DropReason::TooLarge,
    DropReason::StaleGeneration,
    DropReason::LateAnswer,
    DropReason::UnknownAnswer,
    DropReason::UselessCancel,
    DropReason::AbsorbedCancel,
    DropReason::LateProgress,
    DropReason::NoServer,
    DropReason::Closing,
    DropReason::ReplayedAcknowledgement,
];

/// The upper bounds of the latency's buckets. Above the last there is one more.
pub const BUCKETS: [Duration; 16] = [
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_micros(2500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_millis(2500),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(60),
    Duration::from_secs(300),
];

/// What several sessions have counted.
#[derive(Debug, Default)]
pub struct Meter {
    requests: [[AtomicU64; RESULTS.len()]; METHODS.len()],
    latency: [Latency; METHODS.len()],
    lost: [AtomicU64; CAUSES.len()],
    dropped: [[AtomicU64; 2]; DROPS.len()],
    connected: AtomicU64,
    retried: AtomicU64,
    resent: [AtomicU64; Unexecuted::ALL.len()],
    bytes: [AtomicU64; 2],
    states: [AtomicU64; STATES.len()],
    in_flight: AtomicU64,
    held: AtomicU64,
}

/// How long answers took.
#[derive(Debug, Default)]
struct Latency {
    buckets: [AtomicU64; BUCKETS.len() + 1],
    micros: AtomicU64,
}

/// The latency of a method, as it was when it was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// How many answers took no longer than each of [`BUCKETS`], and how many there are.
    pub up_to: [u64; BUCKETS.len() + 1],
    /// How long they took together.
    pub total: Duration,
}

impl Meter {
    /// A meter that has counted nothing.
    pub fn new() -> Meter {
        Meter::default()
    }

    /// Requests that have ended: by method, how, and how many. Those that never happened are left out.
    pub fn requests(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let cells = METHODS.iter().zip(&self.requests);
        cells
            .flat_map(|(method, row)| {
                let row = RESULTS.iter().zip(row);
                row.map(|(result, count)| (*method, *result, count.load(Relaxed)))
            })
            .filter(|(.., count)| *count > 0)
    }

    /// How long the server took to answer, from our taking the request to our passing on the answer, by
    /// method.
    pub fn latency(&self) -> impl Iterator<Item = (&'static str, Histogram)> {
        let all = METHODS.iter().zip(&self.latency);
        all.map(|(method, latency)| (*method, latency.read()))
            .filter(|(_, latency)| latency.up_to[BUCKETS.len()] > 0)
    }

    /// Links that were lost, by the kind of the cause.
    pub fn lost(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let all = CAUSES.iter().zip(&self.lost);
        all.map(|(cause, count)| (*cause, count.load(Relaxed)))
            .filter(|(_, count)| *count > 0)
    }

    /// Messages that were not passed on: which way they went, why not, and how many.
    pub fn dropped(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let all = DROPS.iter().zip(&self.dropped);
        all.flat_map(|(reason, counts)| {
            let ways = DIRECTIONS.iter().zip(counts);
            ways.map(|(way, count)| (*way, reason.as_str(), count.load(Relaxed)))
        })
        .filter(|(.., count)| *count > 0)
    }

    /// Links that have come into service.
    pub fn connected(&self) -> u64 {
        self.connected.load(Relaxed)
    }

    /// Requests that may have been executed and were sent again on another link.
    pub fn retried(&self) -> u64 {
        self.retried.load(Relaxed)
    }

    /// Requests that were sent again because they had not been executed: how that was known, and how many.
    pub fn resent(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let all = Unexecuted::ALL.iter().zip(&self.resent);
        all.map(|(why, count)| (why.as_str(), count.load(Relaxed)))
    }

    /// Bytes of messages that were passed on, to servers and to hosts.
    pub fn bytes(&self) -> [(&'static str, u64); 2] {
        let [to_server, to_host] = &self.bytes;
        [
            (DIRECTIONS[0], to_server.load(Relaxed)),
            (DIRECTIONS[1], to_host.load(Relaxed)),
        ]
    }

    /// How many sessions are in each state.
    pub fn states(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let all = STATES.iter().zip(&self.states);
        all.map(|(state, count)| (*state, count.load(Relaxed)))
    }

    /// Requests that were sent and are waited for.
    pub fn in_flight(&self) -> u64 {
        self.in_flight.load(Relaxed)
    }

    /// Requests that wait for a server.
    pub fn held(&self) -> u64 {
        self.held.load(Relaxed)
    }

    fn request(&self, method: &str, result: &str) {
        if let Some(result) = RESULTS.iter().position(|known| *known == result) {
            self.requests[index_of(method)][result].fetch_add(1, Relaxed);
        }
    }
}

impl Latency {
    fn note(&self, took: Duration) {
        let bucket = BUCKETS.partition_point(|bound| *bound < took);
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.micros.fetch_add(took.as_micros() as u64, Relaxed);
    }

    fn read(&self) -> Histogram {
        let mut up_to = [0; BUCKETS.len() + 1];
        let mut sum = 0;
        for (slot, bucket) in up_to.iter_mut().zip(&self.buckets) {
            sum += bucket.load(Relaxed);
            *slot = sum;
        }
        Histogram {
            up_to,
            total: Duration::from_micros(self.micros.load(Relaxed)),
        }
    }
}

const DIRECTIONS: [&str; 2] = ["to_server", "to_host"];

fn way(direction: Direction) -> usize {
    match direction {
        Direction::ToServer => 0,
        Direction::ToHost => 1,
    }
}

fn index_of(method: &str) -> usize {
    let known = METHODS.iter().position(|known| *known == method);
    known.unwrap_or(METHODS.len() - 1)
}

fn state_index(state: &State) -> usize {
    let name = state.name();
    STATES.iter().position(|known| *known == name).unwrap_or(0)
}

/// One session's part in a meter, if it has one.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    meter: Option<Arc<Meter>>,
    state: usize,
    in_flight: u64,
    held: u64,
}

impl Tally {
    pub(crate) fn new(meter: Arc<Meter>, state: &State) -> Tally {
        let state = state_index(state);
        meter.states[state].fetch_add(1, Relaxed);
        Tally {
            meter: Some(meter),
            state,
            in_flight: 0,
            held: 0,
        }
    }

    /// The server has answered a request.
    #[inline]
    pub(crate) fn answered(&self, method: &str, is_error: bool, took: Duration) {
        if let Some(meter) = &self.meter {
            let index = index_of(method);
            meter.requests[index][usize::from(is_error)].fetch_add(1, Relaxed);
            meter.latency[index].note(took);
        }
    }

    /// A request has ended without an answer.
    pub(crate) fn ended(&self, method: &str, result: &str) {
        if let Some(meter) = &self.meter {
            meter.request(method, result);
        }
    }

    #[inline]
    pub(crate) fn passed(&self, direction: Direction, bytes: usize) {
        if let Some(meter) = &self.meter {
            meter.bytes[way(direction)].fetch_add(bytes as u64, Relaxed);
        }
    }

    /// How much is in flight and held now.
    #[inline]
    pub(crate) fn level(&mut self, level: impl FnOnce() -> (usize, usize)) {
        let Some(meter) = &self.meter else { return };
        let (in_flight, held) = level();
        for (gauge, known, now) in [
            (&meter.in_flight, &mut self.in_flight, in_flight as u64),
            (&meter.held, &mut self.held, held as u64),
        ] {
            if *known != now {
                // Wrapping, as atomics do: less is the addition of a negative number.
                gauge.fetch_add(now.wrapping_sub(*known), Relaxed);
                *known = now;
            }
        }
    }

    pub(crate) fn event(&mut self, event: &Event) {
        let Some(meter) = &self.meter else { return };
        match event {
            Event::State(state) => {
                meter.states[self.state].fetch_sub(1, Relaxed);
                self.state = state_index(state);
                meter.states[self.state].fetch_add(1, Relaxed);
            }
            Event::Connected { .. } => drop(meter.connected.fetch_add(1, Relaxed)),
            Event::Lost { cause, .. } => {
                let kind = cause.kind();
                if let Some(index) = CAUSES.iter().position(|known| *known == kind) {
                    meter.lost[index].fetch_add(1, Relaxed);
                }
            }
            Event::Retried { .. } => drop(meter.retried.fetch_add(1, Relaxed)),
            Event::Resent { why, .. } => {
                if let Some(index) = Unexecuted::ALL.iter().position(|known| known == why) {
                    meter.resent[index].fetch_add(1, Relaxed);
                }
            }
            Event::Refused { method, kind, .. } => meter.request(method, kind),
            Event::Dropped {
                direction, reason, ..
            } => {
                if let Some(index) = DROPS.iter().position(|known| known == reason) {
                    meter.dropped[index][way(*direction)].fetch_add(1, Relaxed);
                }
            }
            _ => {}
        }
    }
}

/// Takes the session's part of the gauges away.
impl Drop for Tally {
    fn drop(&mut self) {
        if let Some(meter) = self.meter.take() {
            meter.states[self.state].fetch_sub(1, Relaxed);
            meter.in_flight.fetch_sub(self.in_flight, Relaxed);
            meter.held.fetch_sub(self.held, Relaxed);
        }
    }
}

/// A copy of a session counts nowhere: what it does, it does not really do.
impl Clone for Tally {
    fn clone(&self) -> Tally {
        Tally::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use crate::cause::{Cause, Phase, Reason};

    #[test]
    fn every_cause_and_kind_has_its_place() {
        let cause = |reason| Cause {
            reason,
            phase: Phase::Service,
            label: "x".into(),
            stderr_tail: Default::default(),
        };
        for reason in [
            Reason::Eof,
            Reason::Stopped,
            Reason::Requested,
            Reason::Closing,
        ] {
            assert!(CAUSES.contains(&cause(reason).kind()));
        }
        for error in [
            Error::Overloaded {
                limit: crate::error::Limit::held(1),
            },
            Error::SessionExpired,
            Error::Rejected { status: 429 },
            Error::CancelledByCaller,
        ] {
            assert!(RESULTS.contains(&error.kind()), "{}", error.kind());
        }
    }

    #[test]
    fn an_answer_that_takes_as_long_as_a_bound_is_within_it() {
        let latency = Latency::default();
        latency.note(BUCKETS[0]);
        latency.note(BUCKETS[1]);
        assert_eq!(latency.read().up_to[..2], [1, 2]);
    }

    #[test]
    fn methods_of_no_protocol_are_one() {
        let meter = Arc::new(Meter::new());
        let tally = Tally::new(meter.clone(), &State::Closed);
        for method in ["tools/call", "evil{}\"\n", "", "x/y"] {
            tally.answered(method, false, Duration::from_millis(3));
        }
        tally.ended("tools/call", "nonsense");
        let requests: Vec<_> = meter.requests().collect();
        assert_eq!(requests, [("tools/call", OK, 1), (OTHER, OK, 3)]);
        let (method, latency) = meter.latency().next().expect("a histogram");
        assert_eq!(
            (method, latency.total),
            ("tools/call", Duration::from_millis(3))
        );
        assert_eq!(latency.up_to[2..4], [0, 1]);
        assert_eq!(latency.up_to[BUCKETS.len()], 1);
    }

    #[test]
    fn gauges_go_with_their_session_and_counters_stay() {
        let meter = Arc::new(Meter::new());
        let mut first = Tally::new(meter.clone(), &State::Connecting { attempt: 1 });
        let mut second = Tally::new(meter.clone(), &State::Connecting { attempt: 1 });
        first.level(|| (3, 1));
        second.level(|| (2, 0));
        first.level(|| (1, 0));
        assert_eq!((meter.in_flight(), meter.held()), (3, 0));
        first.event(&Event::State(State::Closed));
        first.ended("ping", CANCELLED);
        drop(first.clone());
        drop(first);
        assert_eq!(meter.in_flight(), 2);
        let states: Vec<_> = meter.states().map(|(_, count)| count).collect();
        assert_eq!(states, [1, 0, 0, 0, 0]);
        drop(second);
        assert_eq!(meter.in_flight(), 0);
        assert_eq!(meter.requests().next(), Some(("ping", CANCELLED, 1)));
    }
}
