//! What happened lately, in slots of time: enough for a small picture of it.
//!
//! # Theory
//!
//! Time is cut into slots of one length. A [`Window`] keeps the last [`SLOTS`] of them, and of those only the ones in
//! which something happened: a server that nobody calls costs nothing. There is no timer: slots that have become too
//! old are skipped by whoever reads, and dropped by whoever writes next.
//!
//! [`Calls`] is what is kept of the requests of one slot: how many ended, how many of them with an error, and how long
//! answers took. Durations are counted in classes that grow with them (four to each doubling), so a quantile is off by
//! an eighth at most, and a slot has the same size whatever happens in it.

use std::collections::VecDeque;
use std::time::Duration;

use crate::error::ErrorKind;
use crate::request::{Request, RequestEnd, Step};
use crate::time::Time;

/// The slots of a window.
pub const SLOTS: usize = 60;

/// Classes of durations: up to nine minutes, and one for what takes longer.
const CLASSES: usize = 4 * 28 + 4;

/// What happened in each of the last [`SLOTS`] slots of time.
#[derive(Clone, Debug)]
pub struct Window<T> {
    slot: Duration,
    /// The slots in which something happened, by their number since the start, oldest first.
    slots: VecDeque<(u64, T)>,
}

impl<T: Default> Window<T> {
    /// An empty window whose slots are this long.
    pub fn new(slot: Duration) -> Window<T> {
        Window {
            slot: slot.max(Duration::from_nanos(1)),
            slots: VecDeque::new(),
        }
    }

    /// How long a slot is.
    pub fn slot(&self) -> Duration {
        self.slot
    }

    /// The slot of this moment. A moment before the newest slot belongs to the newest: threads read the clock before
    /// they take turns.
    pub fn at(&mut self, now: Time) -> &mut T {
        let newest = self.slots.back().map_or(0, |(number, _)| *number);
        let number = self.number(now).max(newest);
        let is_old = |(old, _): &mut (u64, T)| old.saturating_add(SLOTS as u64) <= number;
        while self.slots.front_mut().is_some_and(is_old) {
            self.slots.pop_front();
        }
        if self.slots.back().is_none_or(|(newest, _)| *newest < number) {
            self.slots.push_back((number, T::default()));
        }
        let last = self.slots.len() - 1;
        &mut self.slots[last].1
    }

    /// The last [`SLOTS`] slots, oldest first; the last one is that of this moment. `None` where nothing happened.
    pub fn read(&self, now: Time) -> impl Iterator<Item = Option<&T>> {
        let newest = self.slots.back().map_or(0, |(number, _)| *number);
        // Numbers from 1 to `SLOTS` come before the start: there is nothing.
        let end = self.number(now).max(newest) + SLOTS as u64;
        let mut slots = self.slots.iter().peekable();
        (end + 1 - SLOTS as u64..=end).map(move |shifted| {
            while slots
                .next_if(|(at, _)| at + (SLOTS as u64) < shifted)
                .is_some()
            {}
            let slot = slots.next_if(|(at, _)| at + SLOTS as u64 == shifted);
            slot.map(|(_, slot)| slot)
        })
    }

    fn number(&self, now: Time) -> u64 {
        let number = now.since_start().as_nanos() / self.slot.as_nanos();
        // Half of what there is room for: numbers are added to.
        u64::try_from(number).unwrap_or(u64::MAX).min(u64::MAX / 2)
    }
}

/// The requests that ended in one slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// How many. Those that their client cancelled or left are not counted.
    pub ended: u32,
    /// How many of them ended with an error, the server's or ours.
    pub errors: u32,
    /// How long answers took.
    pub latency: Latency,
}

impl Calls {
    /// Whether a step of a request is one to count. Asked first, so that all others cost nothing.
    ///
    /// What a client listens to ends when the client wants it to: it is no call.
    pub fn counts(request: &Request<'_>, step: &Step<'_>) -> bool {
        matches!(step, Step::Settled { .. }) && request.method != "subscriptions/listen"
    }

    /// Counts a step of a request, if it is one to count. The answer to a handshake takes as long as the server takes
    /// to start, and tells nothing about the latency of calls.
    pub fn note(&mut self, request: &Request<'_>, step: &Step<'_>) {
        let Step::Settled { how, took } = step else {
            return;
        };
        let (is_error, is_answer) = match how.ending() {
            RequestEnd::Abandoned | RequestEnd::Failed(ErrorKind::CancelledByCaller) => return,
            RequestEnd::Ok => (false, true),
            RequestEnd::Error => (true, true),
            RequestEnd::Failed(_) => (true, false),
        };
        self.ended = self.ended.saturating_add(1);
        self.errors = self.errors.saturating_add(u32::from(is_error));
        if is_answer && request.method != "initialize" {
            self.latency.note(*took);
        }
    }

    /// Adds the requests of another slot.
    pub fn add(&mut self, other: &Calls) {
        self.ended = self.ended.saturating_add(other.ended);
        self.errors = self.errors.saturating_add(other.errors);
        self.latency.add(&other.latency);
    }
}

/// How long answers took, by classes of durations.
#[derive(Clone, PartialEq, Eq)]
pub struct Latency {
    counts: [u32; CLASSES],
}

impl Default for Latency {
    fn default() -> Latency {
        Latency {
            counts: [0; CLASSES],
        }
    }
}

impl Latency {
    /// Counts an answer that took this long.
    pub fn note(&mut self, took: Duration) {
        let count = &mut self.counts[class(took)];
        *count = count.saturating_add(1);
    }

    /// The duration that this part of all answers did not exceed, from 0 to 1; `None` without answers. It is the middle
    /// of its class.
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        let all: u64 = self.counts.iter().copied().map(u64::from).sum();
        let rank = ((part.clamp(0.0, 1.0) * all as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += u64::from(*count);
            seen >= rank
        });
        found.map(middle)
    }

    fn add(&mut self, other: &Latency) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
    }
}

impl std::fmt::Debug for Latency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [0.5, 0.99].map(|part| self.quantile(part));
        f.debug_tuple("Latency").field(&parts).finish()
    }
}

/// The class of a duration: its microseconds as they are up to four, then four classes to each doubling.
fn class(took: Duration) -> usize {
    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
    let doublings = micros.ilog2();
    match doublings {
        0 | 1 => micros as usize,
        _ => {
            let quarter = (micros >> (doublings - 2)) & 3;
            (4 * (doublings as usize - 1) + quarter as usize).min(CLASSES - 1)
        }
    }
}

/// The middle of a class.
fn middle(class: usize) -> Duration {
    let nanos = match class {
        0..4 => 1000 * class as u64,
        _ => {
            let (doublings, quarter) = (class / 4 + 1, class as u64 % 4);
            let step = 1000 << (doublings - 2);
            (4 + quarter) * step + step / 2
        }
    };
    Duration::from_nanos(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Settled;

    const SLOT: Duration = Duration::from_secs(5);

    fn at(seconds: u64) -> Time {
        Time::after(Duration::from_secs(seconds))
    }

    fn counts(window: &Window<u32>, now: Time) -> Vec<u32> {
        let counts: Vec<u32> = window.read(now).map(|it| *it.unwrap_or(&0)).collect();
        assert_eq!(counts.len(), SLOTS);
        counts
    }

    #[test]
    fn what_happens_in_one_slot_is_counted_together() {
        let mut window = Window::new(SLOT);
        for seconds in [0, 4, 5, 9, 10] {
            *window.at(at(seconds)) += 1;
        }
        assert_eq!(counts(&window, at(10))[SLOTS - 4..], [0, 2, 2, 1]);
        assert_eq!(counts(&window, at(24))[SLOTS - 6..], [0, 2, 2, 1, 0, 0]);
    }

    #[test]
    fn a_slot_is_forgotten_when_as_many_have_passed() {
        let mut window = Window::new(SLOT);
        *window.at(at(3)) += 7;
        let last = SLOTS as u64 * 5 - 1;
        assert_eq!(counts(&window, at(last))[0], 7);
        assert_eq!(counts(&window, at(last + 1)), [0; SLOTS]);
        *window.at(at(last + 1)) += 1;
        assert_eq!(window.slots.len(), 1);
    }

    #[test]
    fn there_are_never_more_slots_than_there_may_be() {
        let mut window: Window<u32> = Window::new(SLOT);
        for slot in 0..10 * SLOTS as u64 {
            *window.at(at(5 * slot)) += 1;
            assert!(window.slots.len() <= SLOTS);
        }
        assert_eq!(counts(&window, at(50 * SLOTS as u64 - 5)), [1; SLOTS]);
    }

    #[test]
    fn who_comes_late_is_counted_in_the_newest_slot() {
        let mut window = Window::new(SLOT);
        *window.at(at(10)) += 1;
        *window.at(at(9)) += 1;
        assert_eq!(counts(&window, at(9))[SLOTS - 1], 2);
    }

    #[test]
    fn a_window_bears_any_moment_and_any_slot() {
        let never = Time::after(Duration::MAX);
        let mut window: Window<u32> = Window::new(Duration::ZERO);
        *window.at(never) += 1;
        assert_eq!(counts(&window, never)[SLOTS - 1], 1);
    }

    #[test]
    fn classes_are_in_order_and_quantiles_within_an_eighth() {
        let mut last = 0;
        for micros in 1..200_000 {
            let took = Duration::from_micros(micros);
            let class = class(took);
            assert!(class == last || class == last + 1, "{micros}");
            last = class;
            let off = middle(class).as_secs_f64() / took.as_secs_f64();
            assert!((0.875..=1.125).contains(&off), "{micros}: {off}");
        }
        for long in [1 << 29, 1 << 40, u64::MAX] {
            assert!(class(Duration::from_micros(long)) < CLASSES);
        }
    }

    #[test]
    fn quantiles_are_those_of_all_answers() {
        let mut latency = Latency::default();
        assert_eq!(latency.quantile(0.5), None);
        for _ in 0..98 {
            latency.note(Duration::from_millis(1));
        }
        for _ in 0..2 {
            latency.note(Duration::from_secs(2));
        }
        let near = |part: f64, expected: f64| {
            let quantile = latency.quantile(part).expect("a duration").as_secs_f64();
            assert!(
                (quantile / expected - 1.0).abs() < 0.13,
                "{part}: {quantile}"
            );
        };
        near(0.0, 0.001);
        near(0.5, 0.001);
        near(0.98, 0.001);
        near(0.99, 2.0);
        near(1.0, 2.0);
    }

    #[test]
    fn what_its_client_ends_is_no_error_and_what_it_listens_to_is_no_call() {
        let request = |method| Request {
            number: None,
            id: b"1",
            method,
            message: None,
        };
        let settled = |how| Step::Settled {
            how,
            took: Duration::from_millis(8),
        };
        let mut calls = Calls::default();
        let answered = |is_error| settled(Settled::Answered { is_error });
        for step in [
            answered(false),
            answered(true),
            settled(Settled::Cancelled),
            settled(Settled::Abandoned),
        ] {
            assert!(Calls::counts(&request("tools/call"), &step));
            calls.note(&request("tools/call"), &step);
        }
        calls.note(&request("initialize"), &answered(false));
        assert_eq!((calls.ended, calls.errors), (3, 1));
        assert_eq!(calls.latency.counts.iter().sum::<u32>(), 2);
        assert!(!Calls::counts(&request("tools/call"), &Step::Accepted));
        let listening = request("subscriptions/listen");
        assert!(!Calls::counts(&listening, &answered(false)));
        let mut both = calls.clone();
        both.add(&calls);
        assert_eq!((both.ended, both.errors), (6, 2));
        assert_eq!(both.latency.quantile(0.5), calls.latency.quantile(0.5));
    }
}
