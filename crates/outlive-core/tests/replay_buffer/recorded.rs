//! The rules of a buffer that is recorded, one by one.

use outlive_core::replay_buffer::{
    Beginning, Change, Delivery, KeptChannel, Lease, Next, NotKept, Payload, ReplayBuffer,
    ReplayLimits,
};
use outlive_core::server::Channel;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Text(&'static str);

impl Payload for Text {
    fn size(&self) -> usize {
        self.0.len()
    }
}

const CALL: Channel = Channel(7);

fn recorded() -> ReplayBuffer<Text> {
    let mut buffer = ReplayBuffer::new(Delivery::Resumable, ReplayLimits::default());
    buffer.record_all();
    buffer
}

/// A channel whose client was promised a stream.
fn promised(buffer: &mut ReplayBuffer<Text>) -> Lease {
    let lease = buffer.open(CALL);
    buffer.promise(lease);
    buffer.prime(lease);
    lease
}

fn changes(buffer: &mut ReplayBuffer<Text>) -> Vec<Change<Text>> {
    let (changes, upto) = buffer.take_changes();
    buffer.written(upto);
    changes
}

#[test]
fn nothing_is_read_before_it_is_written() {
    let mut buffer = recorded();
    let lease = promised(&mut buffer);
    buffer.send(CALL, Text("a"));
    buffer.flush();
    assert_eq!(buffer.read(lease), Next::Pending);
    let (taken, upto) = buffer.take_changes();
    assert_eq!(taken, [Change::Event(CALL, 1, Text("a"))]);
    buffer.send(CALL, Text("b"));
    assert_eq!(buffer.read(lease), Next::Pending);
    while buffer.next_woken().is_some() {}
    buffer.written(upto);
    assert_eq!(buffer.next_woken(), Some(lease.reader));
    assert_eq!(buffer.read(lease), Next::Event(1, Text("a")));
    assert_eq!(buffer.read(lease), Next::Pending);
    assert_eq!(changes(&mut buffer), [Change::Event(CALL, 2, Text("b"))]);
    assert_eq!(buffer.read(lease), Next::Event(2, Text("b")));
}

#[test]
fn a_prompt_answer_is_no_change() {
    let mut buffer = recorded();
    let lease = buffer.open(CALL);
    buffer.send(CALL, Text("a"));
    buffer.done(CALL);
    assert_eq!(buffer.beginning(lease), Some(Beginning::Answer(Text("a"))));
    buffer.detach(lease);
    assert!(!buffer.has_changes());
}

#[test]
fn a_promise_tells_of_what_was_sent_before_it() {
    let mut buffer = recorded();
    let lease = buffer.open(CALL);
    buffer.send(CALL, Text("a"));
    buffer.done(CALL);
    buffer.promise(lease);
    buffer.promise(lease);
    let expected = [Change::Event(CALL, 1, Text("a")), Change::Ended(CALL)];
    assert_eq!(changes(&mut buffer), expected);
}

#[test]
fn the_main_channel_is_always_promised() {
    let mut buffer = recorded();
    buffer.send(Channel::MAIN, Text("a"));
    let expected = [Change::Event(Channel::MAIN, 1, Text("a"))];
    assert_eq!(changes(&mut buffer), expected);
    // Also if it has begun before somebody recorded it.
    let mut buffer = ReplayBuffer::new(Delivery::Resumable, ReplayLimits::default());
    buffer.send(Channel::MAIN, Text("a"));
    buffer.record_all();
    assert_eq!(changes(&mut buffer), expected);
}

#[test]
fn what_nobody_can_come_back_to_is_dropped() {
    let mut buffer = recorded();
    let lease = buffer.open(CALL);
    buffer.promise(lease);
    buffer.send(CALL, Text("a"));
    assert_eq!(changes(&mut buffer).len(), 1);
    // Its client was told no id.
    buffer.detach(lease);
    assert_eq!(changes(&mut buffer), [Change::Dropped(CALL, 1..2)]);
}

#[test]
fn what_is_forgotten_is_a_change_unless_nobody_knew_of_it() {
    let limits = ReplayLimits {
        kept: 2,
        ..ReplayLimits::default()
    };
    let mut buffer = ReplayBuffer::new(Delivery::Resumable, limits);
    buffer.record_all();
    let lease = promised(&mut buffer);
    buffer.send(CALL, Text("a"));
    changes(&mut buffer);
    assert!(matches!(buffer.read(lease), Next::Event(1, _)));
    buffer.detach(lease);
    buffer.send(CALL, Text("b"));
    buffer.send(CALL, Text("c"));
    buffer.send(CALL, Text("d"));
    // The second has come and gone while nobody wrote.
    let expected = [
        Change::Event(CALL, 3, Text("c")),
        Change::Forgotten(CALL, 1),
        Change::Event(CALL, 4, Text("d")),
    ];
    assert_eq!(changes(&mut buffer), expected);
    assert!(buffer.resume(CALL, 1).is_err());
    let lease = buffer.resume(CALL, 2).expect("it is kept");
    assert_eq!(buffer.read(lease), Next::Event(3, Text("c")));
}

#[test]
fn a_sealed_buffer_forgets_nothing_that_is_recorded() {
    let mut buffer = recorded();
    let lease = promised(&mut buffer);
    buffer.send(CALL, Text("a"));
    changes(&mut buffer);
    buffer.seal();
    assert_eq!(buffer.read(lease), Next::Event(1, Text("a")));
    assert_eq!(buffer.read(lease), Next::CutShort);
    buffer.detach(lease);
    assert!(!buffer.has_changes());
}

#[test]
fn all_readers_can_be_sent_away_without_an_end() {
    let mut buffer = recorded();
    let (call, main) = (promised(&mut buffer), buffer.listen());
    buffer.hang_up_all();
    assert_eq!(
        (buffer.read(call), buffer.read(main)),
        (Next::Cut, Next::Cut)
    );
    assert!(!buffer.is_done(CALL));
    assert!(buffer.resume(CALL, 0).is_ok());
}

#[test]
fn a_restored_buffer_goes_on_where_the_other_was() {
    let kept = vec![
        KeptChannel {
            channel: Channel::MAIN,
            first: 5,
            events: vec![Text("m")],
            ended: false,
        },
        KeptChannel {
            channel: CALL,
            first: 2,
            events: vec![Text("b"), Text("c")],
            ended: true,
        },
        KeptChannel {
            channel: Channel(9),
            first: 1,
            events: vec![],
            ended: false,
        },
    ];
    let mut buffer = ReplayBuffer::restored(ReplayLimits::default(), kept);
    assert!(!buffer.has_changes(), "the store has it all");
    assert_eq!(buffer.resume(CALL, 0), Err(NotKept));
    let lease = buffer.resume(CALL, 2).expect("it is kept");
    assert_eq!(buffer.read(lease), Next::Event(3, Text("c")));
    assert_eq!(buffer.read(lease), Next::Complete);
    // Whoever names no event has read what there was.
    let main = buffer.listen();
    assert_eq!(buffer.read(main), Next::Pending);
    buffer.send(Channel::MAIN, Text("n"));
    let expected = [Change::Event(Channel::MAIN, 6, Text("n"))];
    assert_eq!(changes(&mut buffer), expected);
    assert_eq!(buffer.read(main), Next::Event(6, Text("n")));
    let open = buffer.resume(Channel(9), 0).expect("it is open");
    buffer.send(Channel(9), Text("x"));
    buffer.done(Channel(9));
    assert_eq!(changes(&mut buffer).len(), 2);
    assert_eq!(buffer.read(open), Next::Event(1, Text("x")));
}
