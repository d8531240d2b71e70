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

use crate::cause::CauseKind;
use crate::event::{Direction, DropReason, Event, State, StateKind, Unexecuted};
use crate::request::{Again, Observer, Request, RequestEnd, Step};
use crate::time::Time;
use crate::words::words;

words! {
    /// The methods that are told apart, the most frequent first.
    pub enum Method {
        /// `tools/call`.
        ToolsCall => "tools/call",
        /// `tools/list`.
        ToolsList => "tools/list",
        /// `resources/read`.
        ResourcesRead => "resources/read",
        /// `prompts/get`.
        PromptsGet => "prompts/get",
        /// `ping`.
        Ping => "ping",
        /// `completion/complete`.
        CompletionComplete => "completion/complete",
        /// `initialize`.
        Initialize => "initialize",
        /// `server/discover`.
        ServerDiscover => "server/discover",
        /// `subscriptions/listen`.
        SubscriptionsListen => "subscriptions/listen",
        /// `resources/list`.
        ResourcesList => "resources/list",
        /// `resources/templates/list`.
        ResourcesTemplatesList => "resources/templates/list",
        /// `resources/subscribe`.
        ResourcesSubscribe => "resources/subscribe",
        /// `resources/unsubscribe`.
        ResourcesUnsubscribe => "resources/unsubscribe",
        /// `prompts/list`.
        PromptsList => "prompts/list",
        /// `logging/setLevel`.
        LoggingSetLevel => "logging/setLevel",
        /// `tasks/get`.
        TasksGet => "tasks/get",
        /// `tasks/list`.
        TasksList => "tasks/list",
        /// `tasks/result`.
        TasksResult => "tasks/result",
        /// `tasks/update`.
        TasksUpdate => "tasks/update",
        /// `tasks/cancel`.
        TasksCancel => "tasks/cancel",
        /// Any other.
        Other => "other",
    }
}

impl Method {
    /// The label for this method.
    fn of(method: &str) -> Method {
        let known = Method::ALL.into_iter().find(|it| it.as_str() == method);
        known.unwrap_or(Method::Other)
    }
}

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
    requests: [[AtomicU64; RequestEnd::COUNT]; Method::ALL.len()],
    latency: [Latency; Method::ALL.len()],
    lost: [AtomicU64; CauseKind::ALL.len()],
    dropped: [[AtomicU64; Direction::ALL.len()]; DropReason::ALL.len()],
    connected: AtomicU64,
    cut: AtomicU64,
    retried: AtomicU64,
    resent: [AtomicU64; Unexecuted::ALL.len()],
    bytes: [AtomicU64; Direction::ALL.len()],
    states: [AtomicU64; StateKind::ALL.len()],
    in_flight: AtomicU64,
    held: AtomicU64,
}

/// How long answers took.
#[derive(Debug, Default)]
pub struct Latency {
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
    pub fn requests(&self) -> impl Iterator<Item = (Method, RequestEnd, u64)> {
        let cells = Method::ALL.into_iter().zip(&self.requests);
        cells
            .flat_map(|(method, row)| {
                let row = RequestEnd::all().zip(row);
                row.map(move |(ending, count)| (method, ending, count.load(Relaxed)))
            })
            .filter(|(.., count)| *count > 0)
    }

    /// How long the server took to answer, from our taking the request to our passing on the answer, by
    /// method.
    pub fn latency(&self) -> impl Iterator<Item = (Method, Histogram)> {
        let all = Method::ALL.into_iter().zip(&self.latency);
        all.map(|(method, latency)| (method, latency.read()))
            .filter(|(_, latency)| latency.up_to[BUCKETS.len()] > 0)
    }

    /// Links that were lost, by the kind of the cause.
    pub fn lost(&self) -> impl Iterator<Item = (CauseKind, u64)> {
        let all = CauseKind::ALL.into_iter().zip(&self.lost);
        all.map(|(cause, count)| (cause, count.load(Relaxed)))
            .filter(|(_, count)| *count > 0)
    }

    /// Messages that were not passed on: which way they went, why not, and how many.
    pub fn dropped(&self) -> impl Iterator<Item = (Direction, DropReason, u64)> {
        let all = DropReason::ALL.into_iter().zip(&self.dropped);
        all.flat_map(|(reason, counts)| {
            let ways = Direction::ALL.into_iter().zip(counts);
            ways.map(move |(way, count)| (way, reason, count.load(Relaxed)))
        })
        .filter(|(.., count)| *count > 0)
    }

    /// Links that have come into service.
    pub fn connected(&self) -> u64 {
        self.connected.load(Relaxed)
    }

    /// Streams that were cut off because their clients read too slowly.
    pub fn cut(&self) -> u64 {
        self.cut.load(Relaxed)
    }

    /// Requests that may have been executed and were sent again on another link.
    pub fn retried(&self) -> u64 {
        self.retried.load(Relaxed)
    }

    /// Requests that were sent again because they had not been executed: how that was known, and how many.
    pub fn resent(&self) -> impl Iterator<Item = (Unexecuted, u64)> {
        let all = Unexecuted::ALL.into_iter().zip(&self.resent);
        all.map(|(why, count)| (why, count.load(Relaxed)))
    }

    /// Bytes of messages that were passed on, to servers and to hosts.
    pub fn bytes(&self) -> impl Iterator<Item = (Direction, u64)> {
        let all = Direction::ALL.into_iter().zip(&self.bytes);
        all.map(|(direction, bytes)| (direction, bytes.load(Relaxed)))
    }

    /// How many sessions are in each state.
    pub fn states(&self) -> impl Iterator<Item = (StateKind, u64)> {
        let all = StateKind::ALL.into_iter().zip(&self.states);
        all.map(|(state, count)| (state, count.load(Relaxed)))
    }

    /// Requests that were sent and are waited for.
    pub fn in_flight(&self) -> u64 {
        self.in_flight.load(Relaxed)
    }

    /// Requests that wait for a server.
    pub fn held(&self) -> u64 {
        self.held.load(Relaxed)
    }
}

/// Requests are counted where they end, and where they are sent again.
impl Observer for Meter {
    #[inline]
    fn request(&self, _now: Time, request: Request<'_>, step: Step<'_>) {
        match step {
            Step::Accepted | Step::Sent { again: None, .. } => {}
            Step::Sent {
                again: Some(again), ..
            } => {
                let counter = match again {
                    Again::Safe => &self.retried,
                    Again::Unexecuted(why) => &self.resent[why as usize],
                };
                counter.fetch_add(1, Relaxed);
            }
            Step::Settled { how, took } => {
                let (method, ending) = (Method::of(request.method) as usize, how.ending());
                self.requests[method][ending.index()].fetch_add(1, Relaxed);
                if matches!(ending, RequestEnd::Ok | RequestEnd::Error) {
                    self.latency[method].note(took);
                }
            }
        }
    }
}

impl Latency {
    /// One took this long.
    pub fn note(&self, took: Duration) {
        let bucket = BUCKETS.partition_point(|bound| *bound < took);
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.micros.fetch_add(took.as_micros() as u64, Relaxed);
    }

    /// All of them so far.
    pub fn read(&self) -> Histogram {
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

/// One session's part in a meter, if it has one, and its observer.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    meter: Option<Arc<Meter>>,
    /// Who else is told of the steps of requests.
    observer: Option<Arc<dyn Observer>>,
    /// Where it stands among the states.
    state: usize,
    in_flight: u64,
    held: u64,
}

impl Tally {
    /// Counts into this meter, which knows nothing of the session yet.
    pub(crate) fn count_into(&mut self, meter: Arc<Meter>, state: &State) {
        self.state = state.kind() as usize;
        meter.states[self.state].fetch_add(1, Relaxed);
        self.meter = Some(meter);
    }

    pub(crate) fn observe(&mut self, observer: Arc<dyn Observer>) {
        self.observer = Some(observer);
    }

    /// Whether anybody wants to know of requests.
    #[inline]
    pub(crate) fn watches_requests(&self) -> bool {
        self.meter.is_some() || self.observer.is_some()
    }

    /// A request has come one step further.
    #[inline]
    pub(crate) fn request(&self, now: Time, request: Request<'_>, step: Step<'_>) {
        if let Some(meter) = &self.meter {
            meter.request(now, request, step);
        }
        if let Some(observer) = &self.observer {
            observer.request(now, request, step);
        }
    }

    #[inline]
    pub(crate) fn passed(&self, direction: Direction, bytes: usize) {
        if let Some(meter) = &self.meter {
            meter.bytes[direction as usize].fetch_add(bytes as u64, Relaxed);
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
                self.state = state.kind() as usize;
                meter.states[self.state].fetch_add(1, Relaxed);
            }
            Event::Connected { .. } => drop(meter.connected.fetch_add(1, Relaxed)),
            Event::Lost { cause, .. } => {
                meter.lost[cause.cause_kind() as usize].fetch_add(1, Relaxed);
            }
            Event::StreamsCut { streams, .. } => {
                meter.cut.fetch_add(*streams as u64, Relaxed);
            }
            Event::Dropped {
                direction, reason, ..
            } => {
                meter.dropped[*reason as usize][*direction as usize].fetch_add(1, Relaxed);
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
    use crate::error::ErrorKind;
    use crate::request::Settled;

    const NOW: Time = Time::ZERO;

    fn tally(meter: &Arc<Meter>, state: &State) -> Tally {
        let mut tally = Tally::default();
        tally.count_into(meter.clone(), state);
        tally
    }

    fn request(method: &str) -> Request<'_> {
        Request {
            number: None,
            id: b"1",
            method,
            message: None,
        }
    }

    fn settled(how: Settled<'_>) -> Step<'_> {
        let took = Duration::from_millis(3);
        Step::Settled { how, took }
    }

    #[test]
    fn every_ending_has_a_place_of_its_own() {
        let places: Vec<usize> = RequestEnd::all().map(RequestEnd::index).collect();
        assert_eq!(places, (0..RequestEnd::COUNT).collect::<Vec<_>>());
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
        let tally = tally(&meter, &State::Closed);
        for method in ["tools/call", "evil{}\"\n", "", "x/y"] {
            let step = settled(Settled::Answered { is_error: false });
            tally.request(NOW, request(method), step);
        }
        let requests: Vec<_> = meter.requests().collect();
        assert_eq!(
            requests,
            [
                (Method::ToolsCall, RequestEnd::Ok, 1),
                (Method::Other, RequestEnd::Ok, 3)
            ]
        );
        let (method, latency) = meter.latency().next().expect("a histogram");
        assert_eq!(
            (method, latency.total),
            (Method::ToolsCall, Duration::from_millis(3))
        );
        assert_eq!(latency.up_to[2..4], [0, 1]);
        assert_eq!(latency.up_to[BUCKETS.len()], 1);
    }

    #[test]
    fn gauges_go_with_their_session_and_counters_stay() {
        let meter = Arc::new(Meter::new());
        let mut first = tally(&meter, &State::Connecting { attempt: 1 });
        let mut second = tally(&meter, &State::Connecting { attempt: 1 });
        first.level(|| (3, 1));
        second.level(|| (2, 0));
        first.level(|| (1, 0));
        assert_eq!((meter.in_flight(), meter.held()), (3, 0));
        first.event(&Event::State(State::Closed));
        first.request(NOW, request("ping"), settled(Settled::Cancelled));
        drop(first.clone());
        drop(first);
        assert_eq!(meter.in_flight(), 2);
        let states: Vec<_> = meter.states().map(|(_, count)| count).collect();
        assert_eq!(states, [1, 0, 0, 0, 0]);
        drop(second);
        assert_eq!(meter.in_flight(), 0);
        assert_eq!(
            meter.requests().next(),
            Some((
                Method::Ping,
                RequestEnd::Failed(ErrorKind::CancelledByCaller),
                1
            ))
        );
    }
}
