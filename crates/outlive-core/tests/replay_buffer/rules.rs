//! The rules of a replay buffer, one by one.

use std::time::Duration;

use outlive_core::Time;
use outlive_core::replay_buffer::{
    Beginning, Cuts, Delivery, Lease, Next, NotKept, Payload, ReplayBuffer, ReplayLimits,
};
use outlive_core::server::Channel;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Text(&'static str);

impl Payload for Text {
    fn size(&self) -> usize {
        self.0.len()
    }
}

const CALL: Channel = Channel(7);

const LIMITS: ReplayLimits = ReplayLimits {
    backlog: 3,
    backlog_bytes: 10,
    kept: 3,
    kept_bytes: 10,
    total_bytes: 30,
    stall: Duration::from_secs(10),
};

fn buffer(delivery: Delivery) -> ReplayBuffer<Text> {
    ReplayBuffer::new(delivery, LIMITS)
}

fn send(buffer: &mut ReplayBuffer<Text>, at: Channel, messages: &[&'static str]) {
    for message in messages {
        buffer.send(at, Text(message));
    }
}

fn event(number: u64, message: &'static str) -> Next<Text> {
    Next::Event(number, Text(message))
}

/// All that a reader reads until there is nothing more, and what it is told then.
fn read_all(buffer: &mut ReplayBuffer<Text>, lease: Lease) -> (Vec<(u64, Text)>, Next<Text>) {
    let mut events = Vec::new();
    loop {
        match buffer.read(lease) {
            Next::Event(number, message) => {
                events.push((number, message));
            }
            end => return (events, end),
        }
    }
}

/// A channel whose client knows where to come back to.
fn primed(buffer: &mut ReplayBuffer<Text>, at: Channel) -> Lease {
    let lease = buffer.open(at);
    buffer.prime(lease);
    lease
}

#[test]
fn fm_26_a_client_comes_back_for_what_followed_the_last_event() {
    let mut it = buffer(Delivery::Resumable);
    let lease = primed(&mut it, CALL);
    send(&mut it, CALL, &["a", "b"]);
    assert_eq!(it.read(lease), event(1, "a"));
    assert!(
        !it.detach(lease),
        "a legacy client that is cut off has not cancelled (FM-46)"
    );
    send(&mut it, CALL, &["c"]);
    it.done(CALL);
    let again = it.resume(CALL, 1).expect("kept");
    assert_eq!(
        (it.read(again), it.read(again)),
        (event(2, "b"), event(3, "c"))
    );
    assert_eq!(it.read(again), Next::Complete);
    // And once more, from the beginning.
    let whole = it.resume(CALL, 0).expect("kept");
    assert_eq!(read_all(&mut it, whole).0.len(), 3);
    assert_eq!(it.read(again), Next::Cut);
}

#[test]
fn an_event_that_never_was_cannot_be_resumed_behind() {
    let mut it = buffer(Delivery::Resumable);
    let lease = primed(&mut it, CALL);
    send(&mut it, CALL, &["a"]);
    for (at, after) in [
        (CALL, 2),
        (CALL, u64::MAX),
        (Channel(8), 0),
        (Channel::MAIN, 1),
    ] {
        assert_eq!(it.resume(at, after), Err(NotKept), "{at:?} {after}");
    }
    assert_eq!(it.read(lease), event(1, "a"), "nobody has taken the lease");
    assert!(it.resume(Channel::MAIN, 0).is_ok());
}

#[test]
fn nobody_resumes_a_channel_whose_client_was_told_no_id() {
    let mut it = buffer(Delivery::Resumable);
    let lease = it.open(CALL);
    send(&mut it, CALL, &["a", "b"]);
    assert_eq!(it.resume(CALL, 0), Err(NotKept));
    assert_eq!(it.read(lease), event(1, "a"));
    // Now it was told one.
    assert!(it.resume(CALL, 1).is_ok());
}

#[test]
fn fm_25_the_newest_reader_wins_and_the_older_one_is_woken() {
    let mut it = buffer(Delivery::Resumable);
    let old = it.listen();
    assert_eq!(it.read(old), Next::Pending);
    let new = it.listen();
    assert_eq!(it.next_woken(), Some(old.reader));
    send(&mut it, Channel::MAIN, &["a"]);
    assert_eq!((it.read(old), it.read(new)), (Next::Cut, event(1, "a")));
    // It goes on where the other ended.
    let third = it.listen();
    assert_eq!((third.after, it.read(third)), (1, Next::Pending));
    assert!(it.has_readers() && !it.was_left());
    for lease in [old, new, third] {
        assert!(!it.detach(lease));
    }
    assert!(!it.has_readers() && it.was_left());
}

#[test]
fn a_reader_is_woken_once_and_at_the_flush() {
    let mut it = buffer(Delivery::Once);
    let lease = it.open(CALL);
    assert_eq!(it.beginning(lease), None);
    send(&mut it, CALL, &["a", "b"]);
    assert_eq!((it.next_woken(), it.is_dirty()), (None, true));
    it.flush();
    assert_eq!(
        (it.next_woken(), it.is_dirty()),
        (Some(lease.reader), false)
    );
    assert_eq!(it.next_woken(), None);
    assert_eq!(it.beginning(lease), Some(Beginning::Stream));
    assert_eq!(
        (it.read(lease), it.read(lease)),
        (event(1, "a"), event(2, "b"))
    );
    assert_eq!(it.read(lease), Next::Pending);
    it.done(CALL);
    assert_eq!(
        it.next_woken(),
        Some(lease.reader),
        "nobody flushes after the end"
    );
}

#[test]
fn a_prompt_answer_is_taken_out_whole() {
    for delivery in [Delivery::Resumable, Delivery::Once] {
        let mut it = buffer(delivery);
        let lease = it.open(CALL);
        send(&mut it, CALL, &["answer"]);
        it.done(CALL);
        assert!(it.is_done(CALL));
        assert_eq!(it.beginning(lease), Some(Beginning::Answer(Text("answer"))));
        assert_eq!((it.held(), it.channels().count()), ((0, 0), 0));
        assert!(!it.detach(lease));
    }
}

#[test]
fn a_channel_without_an_answer_leaves_nothing() {
    let mut it = buffer(Delivery::Resumable);
    for n in 1..=100 {
        let lease = it.open(Channel(n));
        it.done(Channel(n));
        assert_eq!(it.beginning(lease), Some(Beginning::Silence));
        it.detach(lease);
    }
    assert_eq!(it.channels().count(), 0);
}

#[test]
fn the_oldest_events_are_forgotten_first_whichever_channel_they_are_on() {
    let mut it = buffer(Delivery::Resumable);
    let (first, second) = (Channel(1), Channel(2));
    for at in [first, second] {
        let lease = primed(&mut it, at);
        it.detach(lease);
    }
    send(&mut it, second, &["a"]);
    send(&mut it, first, &["b"]);
    send(&mut it, second, &["c"]);
    send(&mut it, first, &["d"]);
    assert_eq!((it.held(), it.resume(second, 0)), ((3, 3), Err(NotKept)));
    let lease = it.resume(first, 0).expect("kept");
    assert_eq!(read_all(&mut it, lease).0.len(), 2);
    let lease = it.resume(second, 1).expect("kept");
    assert_eq!(it.read(lease), event(2, "c"));
}

#[test]
fn events_are_forgotten_for_their_bytes_and_the_newest_of_all_stays() {
    let mut it = buffer(Delivery::Resumable);
    let lease = primed(&mut it, CALL);
    it.detach(lease);
    send(&mut it, CALL, &["12345", "an answer that is large"]);
    it.done(CALL);
    assert_eq!(
        it.resume(CALL, 0),
        Err(NotKept),
        "there was no room for the first"
    );
    let lease = it.resume(CALL, 1).expect("kept");
    assert_eq!(it.read(lease), event(2, "an answer that is large"));
    it.detach(lease);
    // Something newer takes its place.
    send(&mut it, Channel::MAIN, &["x"]);
    assert_eq!((it.held(), it.resume(CALL, 1)), ((1, 1), Err(NotKept)));
}

#[test]
fn what_a_reader_is_about_to_read_is_not_forgotten() {
    let mut it = buffer(Delivery::Resumable);
    let lease = primed(&mut it, CALL);
    send(&mut it, CALL, &["a", "b", "c", "d"]);
    assert_eq!(it.held(), (4, 4), "one more than is kept");
    let (events, end) = read_all(&mut it, lease);
    assert_eq!((events.len(), end), (4, Next::Pending));
    assert_eq!(it.held(), (3, 3));
}

#[test]
fn a_slow_reader_is_cut_off_and_may_resume_if_it_can() {
    // By count, and by bytes.
    for taken in [&["a", "b", "c", "d"][..], &["12345", "12345", "1"]] {
        let mut it = buffer(Delivery::Resumable);
        let lease = primed(&mut it, CALL);
        assert_eq!(it.read(lease), Next::Pending);
        send(&mut it, CALL, taken);
        assert!(it.is_read(CALL));
        send(&mut it, CALL, &["e"]);
        assert_eq!((it.is_read(CALL), it.read(lease)), (false, Next::Cut));
        assert_eq!(it.next_woken(), Some(lease.reader));
        // What it missed is not all there, and it is told so.
        assert_eq!((it.resume(CALL, 0), it.has_lost()), (Err(NotKept), false));
        let again = it.resume(CALL, taken.len() as u64 - 1).expect("kept");
        assert_eq!(read_all(&mut it, again).0.len(), 2);
    }
}

/// A buffer whose sender waits for slow readers, and a moment.
fn paced(delivery: Delivery) -> (ReplayBuffer<Text>, impl Fn(u64) -> Time) {
    let limits = ReplayLimits {
        backlog: 8,
        backlog_bytes: 80,
        total_bytes: 200,
        ..LIMITS
    };
    let mut it = ReplayBuffer::new(delivery, limits);
    it.pace();
    (it, |seconds| Time::after(Duration::from_secs(seconds)))
}

#[test]
fn a_sender_with_one_client_waits_for_a_slow_reader() {
    for delivery in [Delivery::Resumable, Delivery::OneStream] {
        let (mut it, at) = paced(delivery);
        let lease = it.listen();
        send(&mut it, Channel::MAIN, &["a", "b", "c", "d"]);
        assert_eq!(it.hold_back(at(0)), None, "half of it fits");
        send(&mut it, Channel::MAIN, &["e"]);
        assert_eq!(it.hold_back(at(0)), Some(at(10)));
        // What comes all the same is not lost, either.
        send(&mut it, Channel::MAIN, &["f", "g", "h", "i", "j"]);
        for n in 1..8 {
            assert!(matches!(it.read(lease), Next::Event(number, _) if number == n));
            assert!(!it.is_released(), "after {n}");
        }
        assert!(it.hold_back(at(1)).is_some(), "more than a quarter is left");
        assert_eq!(it.read(lease), event(8, "h"));
        assert!(it.is_released());
        assert_eq!((it.hold_back(at(1)), it.is_released()), (None, false));
        assert_eq!((it.read(lease), it.take_cuts()), (event(9, "i"), None));
    }
}

/// A sender for requests of many clients, such as the leg of a router to a legacy server.
#[test]
fn nobody_waits_for_a_slow_reader_of_requests_without_a_session() {
    let (mut it, at) = paced(Delivery::Once);
    let (slow, other) = (it.open(CALL), it.open(Channel(CALL.0 + 1)));
    for _ in 0..9 {
        send(&mut it, CALL, &["a"]);
        assert_eq!(it.hold_back(at(0)), None);
    }
    assert!(it.is_read(CALL));
    send(&mut it, CALL, &["a"]);
    assert_eq!((it.read(slow), it.take_lost()), (Next::Cut, vec![CALL]));
    send(&mut it, Channel(CALL.0 + 1), &["answer"]);
    assert_eq!(it.read(other), event(1, "answer"));
}

#[test]
fn a_sender_does_not_wait_for_a_reader_that_has_gone() {
    let (mut it, at) = paced(Delivery::Resumable);
    let lease = it.listen();
    send(&mut it, Channel::MAIN, &["a", "b", "c", "d", "e"]);
    assert!(it.hold_back(at(0)).is_some());
    it.detach(lease);
    assert!(it.is_released());
    send(&mut it, Channel::MAIN, &["f", "g", "h", "i", "j"]);
    assert_eq!(it.hold_back(at(0)), None);
}

#[test]
fn an_exchange_does_not_wait_for_ever_behind_a_stream_that_its_client_does_not_read() {
    let (mut it, at) = paced(Delivery::Resumable);
    let stream = it.listen();
    send(&mut it, Channel::MAIN, &["a", "b", "c", "d", "e"]);
    // Nobody waits for anything else: the connection's own bounds end it.
    assert_eq!(it.hold_back(at(0)), Some(at(10)));
    assert_eq!(it.hold_back(at(100)), Some(at(110)));
    let call = it.open(CALL);
    assert_eq!(it.hold_back(at(101)), None, "it has read nothing for long");
    // From now on it is a slow reader like any other.
    send(&mut it, Channel::MAIN, &["f", "g", "h", "i"]);
    assert!(it.is_read(Channel::MAIN));
    send(&mut it, Channel::MAIN, &["j"]);
    let cuts = Cuts {
        streams: 1,
        unread_bytes: 9,
    };
    assert_eq!((it.read(stream), it.take_cuts()), (Next::Cut, Some(cuts)));
    send(&mut it, CALL, &["answer"]);
    assert_eq!(it.read(call), event(1, "answer"));
}

#[test]
fn a_stream_that_is_read_again_is_waited_for_again() {
    let (mut it, at) = paced(Delivery::Resumable);
    let (stream, _call) = (it.listen(), it.open(CALL));
    send(&mut it, Channel::MAIN, &["a", "b", "c", "d", "e", "f"]);
    assert_eq!(it.hold_back(at(0)), Some(at(10)));
    assert_eq!(it.read(stream), event(1, "a"));
    assert_eq!(it.hold_back(at(10)), Some(at(20)), "it reads");
    assert_eq!(it.hold_back(at(20)), None);
    assert_eq!(it.read(stream), event(2, "b"));
    send(&mut it, Channel::MAIN, &["g"]);
    assert_eq!(it.hold_back(at(21)), Some(at(31)));
}

#[test]
fn a_session_that_holds_too_much_gives_up_its_slowest_reader() {
    let limits = ReplayLimits {
        backlog: 100,
        backlog_bytes: 1000,
        ..LIMITS
    };
    let mut it = ReplayBuffer::new(Delivery::Resumable, limits);
    let (slow, other) = (primed(&mut it, CALL), primed(&mut it, Channel(8)));
    send(&mut it, CALL, &["1234567890", "1234567890"]);
    send(&mut it, Channel(8), &["1234567890", "1"]);
    assert_eq!((it.take_cuts(), it.held().1), (None, 31));
    send(&mut it, Channel(8), &["2"]);
    assert_eq!(
        (it.read(slow), it.read(other)),
        (Next::Cut, event(1, "1234567890"))
    );
    assert_eq!(it.take_cuts().map(|cuts| cuts.unread_bytes), Some(20));
}

#[test]
fn a_slow_reader_that_cannot_come_back_is_lost_once() {
    for told in [true, false] {
        let mut it = buffer(Delivery::Once);
        let lease = it.open(CALL);
        assert_eq!(it.read(lease), Next::Pending);
        send(&mut it, CALL, &["a", "b", "c", "d", "e", "f"]);
        assert_eq!((it.held(), it.read(lease)), ((0, 0), Next::Cut));
        assert_eq!((it.next_woken(), it.has_lost()), (Some(lease.reader), true));
        if told {
            assert_eq!(it.take_lost(), [CALL]);
        }
        assert_eq!(it.detach(lease), !told, "the route is told once");
        assert_eq!(it.take_lost(), []);
    }
}

#[test]
fn fm_46_a_reader_that_goes_abandons_its_channel_unless_that_is_done() {
    let mut it = buffer(Delivery::Once);
    let (left, done) = (it.open(CALL), it.open(Channel(8)));
    send(&mut it, Channel(8), &["a"]);
    it.done(Channel(8));
    assert_eq!((it.detach(left), it.detach(done)), (true, false));
    send(&mut it, CALL, &["late"]);
    assert_eq!((it.held(), it.channels().count()), ((0, 0), 0));
}

#[test]
fn whatever_is_sent_to_a_client_of_http_sse_is_read_from_one_stream() {
    let mut it = buffer(Delivery::OneStream);
    send(&mut it, CALL, &["too early"]);
    let lease = it.listen();
    assert_eq!(it.read(lease), Next::Pending);
    send(&mut it, CALL, &["a"]);
    it.done(CALL);
    assert_eq!(
        it.next_woken(),
        Some(lease.reader),
        "its answer is not followed by a flush"
    );
    send(&mut it, Channel::MAIN, &["b"]);
    assert_eq!(
        (it.read(lease), it.read(lease)),
        (event(1, "a"), event(2, "b"))
    );
    assert!(it.resume(Channel::MAIN, 1).is_err());
    send(&mut it, CALL, &["a", "b", "c", "d", "e"]);
    assert!(it.is_overrun());
    assert!(
        !it.detach(lease),
        "its session ends with its stream, and that tells the route"
    );
    send(&mut it, CALL, &["late"]);
    assert_eq!((it.held(), it.was_left()), ((0, 0), true));
}

#[test]
fn a_main_channel_keeps_its_newest_event_for_whoever_listens() {
    let mut it = buffer(Delivery::Resumable);
    send(&mut it, Channel::MAIN, &["a", "b", "c", "d"]);
    let lease = it.listen();
    assert_eq!(lease.after, 1, "the first is forgotten");
    assert_eq!(it.read(lease), event(2, "b"));
    let mut once = buffer(Delivery::Once);
    send(&mut once, Channel::MAIN, &["a"]);
    assert_eq!(
        once.held(),
        (0, 0),
        "where there are no sessions there is nobody to tell"
    );
}

#[test]
fn a_client_that_is_to_come_back_is_hung_up_on_once_it_can() {
    let mut it = buffer(Delivery::Resumable);
    let lease = it.open(CALL);
    it.hang_up(CALL);
    assert!(it.is_read(CALL), "it could not come back");
    it.prime(lease);
    assert_eq!((it.is_read(CALL), it.read(lease)), (false, Next::Cut));
    assert!(!it.detach(lease));
    send(&mut it, CALL, &["a"]);
    it.done(CALL);
    let again = it.resume(CALL, 0).expect("kept");
    assert_eq!(it.read(again), event(1, "a"));
    it.hang_up(CALL);
    assert_eq!(it.read(again), Next::Cut);
}

#[test]
fn what_is_done_takes_nothing_more() {
    let mut it = buffer(Delivery::Once);
    let lease = it.open(CALL);
    send(&mut it, CALL, &["a"]);
    it.done(CALL);
    it.end_early(CALL);
    send(&mut it, CALL, &["b"]);
    assert_eq!(it.beginning(lease), Some(Beginning::Answer(Text("a"))));
    let cut_short = it.open(Channel(8));
    it.end_early(Channel(8));
    it.done(Channel(8));
    assert_eq!(it.read(cut_short), Next::CutShort);
}

#[test]
fn nothing_withdrawn_is_read_and_what_comes_later_is() {
    for delivery in [Delivery::Resumable, Delivery::Once] {
        let mut it = buffer(delivery);
        let (withdrawn, other) = (primed(&mut it, CALL), primed(&mut it, Channel(8)));
        send(&mut it, CALL, &["read", "secret"]);
        send(&mut it, Channel(8), &["a"]);
        assert_eq!(it.read(withdrawn), event(1, "read"));
        it.withdraw(Some(CALL));
        send(&mut it, CALL, &["withdrawn"]);
        it.done(CALL);
        assert_eq!(
            it.read(withdrawn),
            event(3, "withdrawn"),
            "no number is used twice"
        );
        assert_eq!(it.read(withdrawn), Next::Complete);
        assert_eq!(it.resume(CALL, 0), Err(NotKept));
        assert_eq!(it.read(other), event(1, "a"));
        it.withdraw(None);
        let (events, _) = it.held();
        assert_eq!(events, 0);
        it.detach(withdrawn);
        it.detach(other);
        assert_eq!(it.held(), (0, 0));
    }
}

#[test]
fn a_sealed_buffer_ends_every_reader_and_takes_nothing() {
    let mut it = buffer(Delivery::Resumable);
    let (call, left, main) = (
        primed(&mut it, CALL),
        primed(&mut it, Channel(8)),
        it.listen(),
    );
    send(&mut it, CALL, &["a"]);
    send(&mut it, Channel(8), &["b"]);
    it.detach(left);
    assert_eq!(it.read(main), Next::Pending);
    it.seal();
    assert!(it.is_sealed() && it.is_done(CALL));
    assert_eq!(it.next_woken(), Some(main.reader));
    send(&mut it, CALL, &["late"]);
    send(&mut it, Channel::MAIN, &["late"]);
    assert_eq!(
        (it.read(call), it.read(call)),
        (event(1, "a"), Next::CutShort)
    );
    assert_eq!(
        it.read(main),
        Next::Complete,
        "nobody waits for an answer there"
    );
    assert_eq!(it.resume(Channel(8), 0), Err(NotKept));
    let late = it.open(Channel(9));
    assert_eq!(it.beginning(late), Some(Beginning::Silence));
    assert_eq!(it.read(late), Next::CutShort);
    for lease in [call, main, late] {
        it.detach(lease);
    }
    assert_eq!((it.held(), it.channels().count()), ((0, 0), 0));
}
