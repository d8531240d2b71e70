//! The other end of a connection, for tests.

use super::*;

/// What the other end does next.
pub(in super::super) enum Act {
    /// Returns this, with this signature.
    Return(&'static str, Body),
    /// Refuses, with this error.
    Refuse(&'static str),
    /// An object tells something.
    Signal(&'static str, &'static str, &'static str, Body),
    /// Writes this, whatever it is.
    Write(Vec<u8>),
    /// Says nothing more, and stays.
    Hang,
    /// Leaves.
    Leave,
}

fn message(
    kind: u8,
    fields: &[(u8, &str, &str)],
    to: u32,
    signature: &str,
    body: &Body,
) -> Vec<u8> {
    let mut head = Body(vec![b'l', kind, 0, 1]);
    head.number(body.0.len());
    head.number(7);
    head.array(8, |head| {
        for (field, kind, text) in fields {
            head.align(8);
            head.0.push(*field);
            head.variant(|head| head.text(text), kind);
        }
        head.align(8);
        head.0.push(5);
        head.variant(|head| head.number(to as usize), "u");
        if !signature.is_empty() {
            head.align(8);
            head.0.push(8);
            head.variant(|head| head.signature(signature), "g");
        }
    });
    head.align(8);
    head.0.extend_from_slice(&body.0);
    head.0
}

/// Does to each call what `act` says of its member.
pub(in super::super) fn serve(stream: UnixStream, mut act: impl FnMut(&str) -> Vec<Act>) {
    let mut bus = Bus {
        stream,
        serial: 0,
        deadline: Instant::now() + Duration::from_secs(20),
        signals: Vec::new(),
    };
    let Ok(hello) = bus.line() else { return };
    assert!(hello.starts_with("\0AUTH EXTERNAL "), "{hello:?}");
    let _ = bus.write(b"OK 0123\r\n");
    assert_eq!(bus.line().as_deref(), Ok("BEGIN\r\n"));
    for serial in 1.. {
        let Ok(call) = bus.message() else { return };
        assert_eq!(call.kind, CALL);
        for act in act(&call.member) {
            let empty = Body::default();
            let bytes = match act {
                Act::Return(signature, body) => message(RETURN, &[], serial, signature, &body),
                Act::Refuse(error) => message(ERROR, &[(4, "s", error)], serial, "", &empty),
                Act::Signal(path, member, signature, body) => {
                    let fields = [(1, "o", path), (3, "s", member)];
                    message(SIGNAL, &fields, 0, signature, &body)
                }
                Act::Write(bytes) => bytes,
                Act::Hang => {
                    let _ = bus.read(1 << 20);
                    return;
                }
                Act::Leave => return,
            };
            if bus.write(&bytes).is_err() {
                return;
            }
        }
    }
}
