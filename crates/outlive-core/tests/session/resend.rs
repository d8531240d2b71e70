//! Requests that a server has not executed and would take in another way.

use outlive_core::cause::Exit;
use outlive_core::link::Resend;
use outlive_core::policy::Retry;
use outlive_core::{Event, Id, LinkInput, Output};

use crate::pair::*;

/// The link asks whether it may send this again; what it is told.
fn ask(p: &mut Pair, id: Id, why: Resend) -> bool {
    p.forget();
    p.link(LinkInput::Unexecuted {
        id: id.clone(),
        why,
    });
    let told = p.take(|output| match output {
        Output::Resend { id, granted, .. } => Some((id.clone(), *granted)),
        _ => None,
    });
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].0, id);
    told[0].1
}

#[test]
fn a_request_is_sent_again_while_the_host_waits_for_it() {
    for retry in [Retry::Safe, Retry::Never, Retry::Always] {
        let mut p = Pair::ready_with(|policy| policy.retry = retry);
        p.call(7, "any");
        assert!(ask(&mut p, Id::Int(7), Resend::Credentials), "{retry:?}");
        p.result(7, "{}");
        assert_eq!(p.at_host().len(), 1);
        assert!(
            !ask(&mut p, Id::Int(7), Resend::Credentials),
            "it was answered"
        );
    }
}

#[test]
fn what_was_cancelled_is_not_sent_again() {
    let mut p = Pair::ready();
    p.call(7, "any");
    p.cancel(7);
    assert!(!ask(&mut p, Id::Int(7), Resend::Redirected));
}

#[test]
fn a_transport_that_asks_for_ever_is_stopped() {
    let mut p = Pair::ready();
    p.call(7, "any");
    let granted = (0..20).take_while(|_| ask(&mut p, Id::Int(7), Resend::Redirected));
    assert_eq!(granted.count(), 10);
    assert!(!ask(&mut p, Id::Int(7), Resend::Redirected));
}

#[test]
fn it_is_told_who_was_sent_again_but_not_where_a_server_is() {
    let mut p = Pair::ready();
    p.call(7, "any");
    for (why, told) in [
        (Resend::Redirected, 0),
        (Resend::Credentials, 1),
        (Resend::Headers, 1),
    ] {
        p.forget();
        p.link(LinkInput::Unexecuted {
            id: Id::Int(7),
            why,
        });
        let events = p.events();
        let resent = events
            .iter()
            .filter(|event| matches!(event, Event::Resent { .. }));
        assert_eq!(resent.count(), told, "{why:?}");
    }
}

#[test]
fn what_a_later_request_has_overtaken_would_undo_it() {
    let mut p = Pair::ready();
    for (id, level) in [(7, "debug"), (8, "error")] {
        p.host(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"logging/setLevel","params":{{"level":"{level}"}}}}"#
        ));
    }
    p.result(8, "{}");
    p.forget();
    p.link(LinkInput::Unexecuted {
        id: Id::Int(7),
        why: Resend::Credentials,
    });
    assert_eq!(p.at_host(), [r#"{"jsonrpc":"2.0","id":7,"result":{}}"#]);
    assert!(!ask(&mut p, Id::Int(7), Resend::Credentials));
}

#[test]
fn a_link_that_is_dead_sends_nothing_again() {
    let mut p = Pair::ready();
    p.call(7, "any");
    p.eof();
    assert!(!ask(&mut p, Id::Int(7), Resend::Credentials));
    p.die(Exit::Signal(9));
    p.forget();
    p.old_link(
        1,
        LinkInput::Unexecuted {
            id: Id::Int(7),
            why: Resend::Credentials,
        },
    );
    let told = p.take(|output| match output {
        Output::Resend { granted, .. } => Some(*granted),
        _ => None,
    });
    assert_eq!(told, [false]);
}
