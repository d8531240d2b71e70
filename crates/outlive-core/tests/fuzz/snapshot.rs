//! Arbitrary bytes as a snapshot: as they are, and as what stands between its header and its fingerprint. What can be
//! read is written as it was, and what can be resumed goes on to its end.

use outlive_core::cause::Exit;
use outlive_core::snapshot::ResumeError;
use outlive_core::{Frame, Input, LinkInput, Output, Policy, Session, Snapshot, Time};

/// More inputs than any session needs to come to its end.
const MOST: usize = 2_000;

/// Reads one.
pub fn run(data: &[u8]) {
    read(data);
    if let Some(snapshot) = read(&sealed(data)) {
        go_on(snapshot);
    }
}

fn read(bytes: &[u8]) -> Option<Snapshot> {
    let snapshot = Snapshot::decode(bytes).ok()?;
    let again = snapshot.encode();
    let twice = Snapshot::decode(&again).expect("what was written").encode();
    assert_eq!(again, twice, "written and read");
    Some(snapshot)
}

/// A snapshot whose body this is: the format, written down a second time.
fn sealed(body: &[u8]) -> Vec<u8> {
    let mut bytes = b"outlive\x01".to_vec();
    bytes.extend((body.len() as u32).to_le_bytes());
    bytes.extend(body);
    let sum = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    bytes.extend(sum.to_le_bytes());
    bytes
}

/// Resumes it, with a server that answers everything, takes over once more, and stops.
fn go_on(snapshot: Snapshot) {
    let mut policy = Policy::default();
    policy.limits.held = 8;
    let now = Time::after(std::time::Duration::from_secs(1));
    let mut session = match Session::resume(policy.clone(), 1, snapshot, now) {
        Ok(session) => session,
        Err(ResumeError::TooLarge(_)) => return,
        Err(error) => panic!("{error} only shows now"),
    };
    drive(&mut session, now, Input::Start);
    let next = session.snapshot(now).expect("a snapshot");
    let next = Snapshot::decode(&next.encode()).expect("what was written");
    let mut session = Session::resume(policy, 1, next, now).expect("a session");
    drive(&mut session, now, Input::Start);
    drive(&mut session, now, Input::Stop);
    let mut now = now;
    for _ in 0..MOST {
        let Some(at) = session.deadline() else {
            return;
        };
        now = now.max(at);
        drive(&mut session, now, Input::Tick);
    }
    panic!("it does not end");
}

/// Hands it an input, and whatever its links have to say to what comes of it.
fn drive(session: &mut Session, now: Time, input: Input) {
    let mut inputs = vec![input];
    for _ in 0..MOST {
        let Some(input) = inputs.pop() else { return };
        session.handle(now, input);
        while let Some(output) = session.poll() {
            match output {
                Output::Connect(generation) => {
                    inputs.push(Input::Link(generation, LinkInput::Up));
                }
                Output::ToLink(generation, message) if message.id().is_some() => {
                    let id = String::from_utf8_lossy(message.id_json());
                    let line = format!(r#"{{"id":{id},"result":{{"tools":[]}}}}"#);
                    let frame = Frame::read(line.into());
                    inputs.push(Input::Link(generation, LinkInput::Frame(frame)));
                }
                Output::Link(generation, _) => {
                    let exit = Exit::Code(0);
                    let sent = u64::MAX;
                    inputs.push(Input::Link(generation, LinkInput::Exited { exit, sent }));
                }
                _ => {}
            }
        }
    }
    panic!("it is never done");
}
