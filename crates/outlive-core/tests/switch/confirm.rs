//! `notifications/initialized` where servers acknowledge it: a client is done with it when the server has it.

use bytes::Bytes;
use outlive_core::server::Channel;
use outlive_core::switch::{Client, Input, Output, Sharing, Switch, SwitchLimits};
use outlive_core::{Frame, Message};

const A: Client = Client(1);
const B: Client = Client(2);
const INITIALIZED: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

fn feed(switch: &mut Switch, input: Input) -> Vec<Output> {
    switch.handle(input);
    std::iter::from_fn(|| switch.poll()).collect()
}

fn initialized(switch: &mut Switch, client: Client, channel: u64) -> Vec<Output> {
    let frame = Frame::read(Bytes::from_static(INITIALIZED));
    feed(switch, Input::Frame(client, Channel(channel), frame))
}

#[test]
fn a_client_is_done_with_it_when_the_server_has_it() {
    let mut switch = Switch::new(Sharing::Shared, SwitchLimits::default()).confirming();
    let message = Message::read(Bytes::from_static(INITIALIZED)).expect("a message");
    let notify = Output::Notify(A, Channel(5), message);
    assert_eq!(initialized(&mut switch, A, 5), [notify]);
    assert_eq!(
        initialized(&mut switch, B, 6),
        [],
        "it was said once, and waits too"
    );
    let done = feed(&mut switch, Input::Initialized);
    assert_eq!(
        done,
        [Output::Done(A, Channel(5)), Output::Done(B, Channel(6))]
    );
    assert_eq!(feed(&mut switch, Input::Initialized), []);
    // From now on the server has it.
    let later = initialized(&mut switch, Client(3), 7);
    assert_eq!(later, [Output::Done(Client(3), Channel(7))]);
    assert_eq!(switch.sizes().channels, 0);
}

#[test]
fn nobody_is_kept_waiting_by_the_end_or_by_leaving() {
    let mut switch = Switch::new(Sharing::Shared, SwitchLimits::default()).confirming();
    initialized(&mut switch, A, 5);
    initialized(&mut switch, B, 6);
    feed(&mut switch, Input::Gone(A));
    let done = feed(&mut switch, Input::Ended);
    assert_eq!(done, [Output::Done(B, Channel(6))]);
    assert_eq!(switch.sizes().channels, 0);
}

#[test]
fn where_nobody_acknowledges_it_is_done_with_at_once() {
    let mut switch = Switch::new(Sharing::Dedicated, SwitchLimits::default());
    let done = initialized(&mut switch, A, 5);
    assert_eq!(done.last(), Some(&Output::Done(A, Channel(5))));
}
