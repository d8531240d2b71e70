//! How a session goes on in another process, step by step.

use bytes::Bytes;
use outlive_core::Message;
use outlive_core::policy::Retry;
use outlive_core::revival::{Output, Revival};
use outlive_core::server::Channel;
use outlive_core::session_record::{KeptSession, OpenRequests, Part, Record};

fn request(id: u32, method: &str, params: &str) -> Message {
    Message::request(id.to_string().as_bytes(), method, params.as_bytes())
}

fn result(json: &str) -> Message {
    Message::response(b"0", json.as_bytes())
}

fn record() -> Record {
    let answer = result(r#"{"protocolVersion":"2025-11-25"}"#);
    let mut record = Record::new("/mcp", request(0, "initialize", "{}"), &answer);
    record.note(&Message::notification("notifications/initialized", b""));
    record
}

fn kept(record: &Record, parts: Vec<(Part, Bytes)>) -> KeptSession {
    let head = (Part::Head, record.encode());
    KeptSession::read([head].into_iter().chain(parts)).expect("a session")
}

/// A call that was open, and how many owners have had it before.
fn open(channel: u64, tool: &str, deaths: u32) -> (Part, Bytes) {
    let call = request(
        channel as u32,
        "tools/call",
        &format!(r#"{{"name":"{tool}"}}"#),
    );
    let open = OpenRequests {
        requests: vec![call],
        deaths,
    };
    (Part::Open(Channel(channel)), open.encode())
}

fn all(revival: &mut Revival) -> Vec<Output> {
    std::iter::from_fn(|| revival.poll()).collect()
}

fn asked(outputs: &[Output]) -> &str {
    match outputs.last() {
        Some(Output::Ask(message)) => message.method(),
        other => panic!("{other:?}"),
    }
}

const TOOLS: &str =
    r#"{"tools":[{"name":"safe","annotations":{"readOnlyHint":true}},{"name":"unsafe"}]}"#;

/// Goes on until everything is settled.
fn settled(kept: &KeptSession, retry: Retry, tools: &str) -> Vec<Output> {
    let mut revival = Revival::new(kept, retry, "server");
    assert_eq!(asked(&all(&mut revival)), "initialize");
    let welcome =
        r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}}}"#;
    revival.answered(Some(&result(welcome)));
    let mut outputs = all(&mut revival);
    if matches!(outputs.last(), Some(Output::Ask(_))) {
        assert_eq!(asked(&outputs), "tools/list");
        outputs.pop();
        revival.answered(Some(&result(tools)));
        outputs.extend(all(&mut revival));
    }
    assert!(revival.is_over());
    outputs
}

fn heard(outputs: &[Output]) -> Vec<u64> {
    let heard = outputs.iter().filter_map(|it| match it {
        Output::Hear(channel, _) => Some(channel.0),
        _ => None,
    });
    heard.collect()
}

fn failed(outputs: &[Output]) -> Vec<u64> {
    let failed = outputs.iter().filter_map(|it| match it {
        Output::Send(channel, message) if message.is_error() => Some(channel.0),
        _ => None,
    });
    failed.collect()
}

#[test]
fn the_clients_own_words_are_said_again_and_nothing_is_asked_that_nobody_needs() {
    let mut record = record();
    record.note(&request(1, "logging/setLevel", r#"{"level":"info"}"#));
    record.note(&request(2, "resources/subscribe", r#"{"uri":"x://a"}"#));
    let outputs = settled(&kept(&record, Vec::new()), Retry::Safe, TOOLS);
    let said: Vec<&str> = outputs
        .iter()
        .filter_map(|it| match it {
            Output::Say(message) => Some(message.method()),
            _ => None,
        })
        .collect();
    let expected = [
        "notifications/initialized",
        "logging/setLevel",
        "resources/subscribe",
    ];
    assert_eq!(said, expected);
    let told: Vec<&str> = outputs
        .iter()
        .filter_map(|it| match it {
            Output::Send(Channel::MAIN, message) => Some(message.method()),
            _ => None,
        })
        .collect();
    let expected = [
        "notifications/resources/updated",
        "notifications/tools/list_changed",
        "notifications/message",
    ];
    assert_eq!(told, expected);
    assert_eq!(outputs.last(), Some(&Output::Ready));
}

#[test]
fn a_host_that_wants_no_warnings_hears_of_no_new_server() {
    let mut record = record();
    record.note(&request(1, "logging/setLevel", r#"{"level":"error"}"#));
    let outputs = settled(&kept(&record, Vec::new()), Retry::Safe, TOOLS);
    let is_log =
        |it: &Output| matches!(it, Output::Send(_, told) if told.is("notifications/message"));
    assert!(!outputs.iter().any(is_log), "{outputs:?}");
}

#[test]
fn what_is_safe_by_the_current_list_is_sent_again_and_that_is_written_first() {
    let kept = kept(
        &record(),
        vec![open(4, "safe", 0), open(5, "unsafe", 0), open(6, "gone", 0)],
    );
    let outputs = settled(&kept, Retry::Safe, TOOLS);
    assert_eq!((heard(&outputs), failed(&outputs)), (vec![4], vec![5, 6]));
    let written = outputs.iter().position(|it| matches!(it, Output::Write(_)));
    let sent = outputs.iter().position(|it| matches!(it, Output::Hear(..)));
    assert!(written < sent, "{outputs:?}");
    assert!(outputs.contains(&Output::Done(Channel(5))));
    assert!(!outputs.contains(&Output::Done(Channel(4))));
}

#[test]
fn a_list_that_cannot_be_read_allows_nothing() {
    let kept = kept(&record(), vec![open(4, "safe", 0)]);
    for tools in [r#"{}"#, r#"{"tools":[]}"#] {
        let outputs = settled(&kept, Retry::Safe, tools);
        assert_eq!((heard(&outputs), failed(&outputs)), (vec![], vec![4]));
    }
}

#[test]
fn all_pages_of_the_list_count() {
    let kept = kept(&record(), vec![open(4, "safe", 0)]);
    let mut revival = Revival::new(&kept, Retry::Safe, "server");
    all(&mut revival);
    revival.answered(Some(&result("{}")));
    all(&mut revival);
    revival.answered(Some(&result(
        r#"{"tools":[{"name":"a"}],"nextCursor":"2"}"#,
    )));
    let outputs = all(&mut revival);
    let [Output::Ask(second)] = &outputs[..] else {
        panic!("{outputs:?}");
    };
    assert_eq!(second.cursor_text().as_deref(), Some("2"));
    revival.answered(Some(&result(TOOLS)));
    assert_eq!(heard(&all(&mut revival)), [4]);
}

#[test]
fn the_user_decides_what_is_sent_again() {
    let kept = kept(&record(), vec![open(4, "safe", 0), open(5, "unsafe", 0)]);
    assert_eq!(heard(&settled(&kept, Retry::Never, TOOLS)), [0; 0]);
    assert_eq!(heard(&settled(&kept, Retry::Always, TOOLS)), [4, 5]);
}

#[test]
fn what_was_open_at_two_deaths_in_a_row_is_not_sent_again() {
    let kept = kept(&record(), vec![open(4, "safe", 1)]);
    for retry in [Retry::Safe, Retry::Always] {
        let outputs = settled(&kept, retry, TOOLS);
        assert_eq!((heard(&outputs), failed(&outputs)), (vec![], vec![4]));
    }
}

#[test]
fn questions_of_the_former_server_are_void() {
    let question = request(77, "elicitation/create", "{}").into_bytes();
    let kept = kept(
        &record(),
        vec![open(4, "unsafe", 0), (Part::Event(Channel(4), 1), question)],
    );
    let outputs = settled(&kept, Retry::Safe, TOOLS);
    let void = outputs.iter().find_map(|it| match it {
        Output::Send(Channel(4), message) => Some(message),
        _ => None,
    });
    let void = void.expect("a message");
    assert_eq!(void.method(), "notifications/cancelled");
    assert_eq!(void.request_id().map(|id| id.to_json()), Some("77".into()));
}

#[test]
fn a_server_that_refuses_or_speaks_another_version_fails_the_revival() {
    let kept = kept(&record(), vec![open(4, "safe", 0)]);
    let refused = Message::failure(b"0", br#"{"code":-32000,"message":"no"}"#);
    let other = result(r#"{"protocolVersion":"2024-11-05"}"#);
    for (answer, words) in [
        (Some(&refused), r#""message":"no""#),
        (Some(&other), "2024-11-05"),
        (None, "lost with the process"),
    ] {
        let mut revival = Revival::new(&kept, Retry::Safe, "server");
        all(&mut revival);
        revival.answered(answer);
        let outputs = all(&mut revival);
        let [Output::Failed(error)] = &outputs[..] else {
            panic!("{outputs:?}");
        };
        let error = String::from_utf8_lossy(error);
        assert!(error.contains(words), "{error}");
    }
}

/// A request of another method that was open.
fn open_request(channel: u64, method: &str) -> (Part, Bytes) {
    let open = OpenRequests {
        requests: vec![request(channel as u32, method, r#"{"uri":"x://a"}"#)],
        deaths: 0,
    };
    (Part::Open(Channel(channel)), open.encode())
}

#[test]
fn a_request_that_only_reads_is_sent_again_whatever_the_tools_are() {
    let parts = vec![
        open_request(4, "resources/read"),
        open_request(5, "resources/forget"),
    ];
    let outputs = settled(&kept(&record(), parts), Retry::Safe, TOOLS);
    assert_eq!((heard(&outputs), failed(&outputs)), (vec![4], vec![5]));
}

#[test]
fn tools_are_not_asked_for_if_the_user_has_decided() {
    for (retry, again) in [(Retry::Always, true), (Retry::Never, false)] {
        let kept = kept(&record(), vec![open(4, "unsafe", 0)]);
        let mut revival = Revival::new(&kept, retry, "server");
        assert_eq!(asked(&all(&mut revival)), "initialize");
        revival.answered(Some(&result(r#"{"protocolVersion":"2025-11-25"}"#)));
        assert!(!revival.is_over(), "there is something to do");
        let outputs = all(&mut revival);
        assert!(revival.is_over(), "{outputs:?}");
        assert_eq!(heard(&outputs).len(), usize::from(again));
    }
}

#[test]
fn a_list_without_end_is_not_read_to_it() {
    let kept = kept(&record(), vec![open(4, "safe", 0)]);
    let mut revival = Revival::new(&kept, Retry::Safe, "server");
    assert_eq!(asked(&all(&mut revival)), "initialize");
    revival.answered(Some(&result(r#"{"protocolVersion":"2025-11-25"}"#)));
    let (mut outputs, mut pages) = (all(&mut revival), 0);
    while matches!(outputs.last(), Some(Output::Ask(_))) {
        pages += 1;
        assert!(pages < 2000, "it is asked for ever");
        let page = TOOLS.replacen('{', &format!(r#"{{"nextCursor":"{pages}","#), 1);
        revival.answered(Some(&result(&page)));
        outputs = all(&mut revival);
    }
    assert!(pages > 100, "{pages}");
    assert_eq!((heard(&outputs), failed(&outputs)), (vec![], vec![4]));
}

#[test]
fn a_question_on_a_channel_that_has_ended_is_over() {
    let ask = || request(9, "roots/list", "{}").into_bytes();
    let parts = vec![
        (Part::Event(Channel(4), 1), ask()),
        (Part::Event(Channel(5), 1), ask()),
        (Part::End(Channel(5)), Bytes::new()),
    ];
    let outputs = settled(&kept(&record(), parts), Retry::Safe, TOOLS);
    let void = outputs.iter().filter_map(|it| match it {
        Output::Send(channel, told) if told.is("notifications/cancelled") => Some(channel.0),
        _ => None,
    });
    assert_eq!(void.collect::<Vec<u64>>(), [4]);
}
