//! Streams that are cut, resumed, refused.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::relay::Relay;
use crate::rig::{Host, Setup};
use crate::web::{Act, Web, numbered, response, result, stream};

fn host(web: &Web) -> Host {
    Host::ready(Setup::new().server(&[&web.url()]))
}

fn news(n: usize) -> String {
    json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": n}}).to_string()
}

/// FM-23: a stream that is cut while nothing is said comes back behind its last event, without a word to the
/// host, and comments are no messages.
#[test]
fn fm_23_an_idle_stream_that_is_cut_comes_back() {
    let opened = AtomicUsize::new(0);
    let web = Web::start(move |request| {
        (request.method == "GET").then(|| match opened.fetch_add(1, Ordering::SeqCst) {
            0 => vec![
                stream(),
                Act::Send(": keep-alive\n\n".into()),
                numbered("a-1", &news(1)),
                Act::Close,
            ],
            1 => vec![stream(), Act::Send(":\n\n".into()), Act::Reset],
            _ => vec![stream(), numbered("a-2", &news(2)), Act::Hang],
        })
    });
    let mut host = host(&web);
    host.wait_for("the second news", |m| m["params"]["data"] == 2);
    let gets = web.wait_for(3, "three streams", |request| request.method == "GET");
    let cursors: Vec<_> = gets.iter().map(|get| get.header("last-event-id")).collect();
    assert_eq!(cursors, [None, Some("a-1"), Some("a-1")]);
    host.ask("echo", json!({})).result();
    assert_eq!(host.notified("notifications/message").len(), 2);
    assert_eq!(web.asked("initialize").len(), 1);
    host.logged(0, "lost", |_| true);
}

/// FM-23: somebody on the way ends what is idle. Comments are enough to keep a stream, and a call on one, alive.
#[test]
fn fm_23_comments_keep_streams_alive() {
    let beats = |n: usize| {
        let beat = [
            Act::Send(": keep-alive\n\n".into()),
            Act::Wait(Duration::from_millis(200)),
        ];
        std::iter::repeat_n(beat, n).flatten()
    };
    let web = Web::start(move |request| {
        let mut reply = vec![stream()];
        match (request.method.as_str(), request.tool()) {
            ("GET", _) => reply.extend(beats(50)),
            (_, "slow") => {
                reply.extend(beats(20));
                reply.push(crate::web::event(&result(request, "at last")));
            }
            _ => return None,
        }
        reply.push(Act::Close);
        Some(reply)
    });
    let relay = Relay::to(web.address()).cutting_idle(Duration::from_secs(2));
    let mut host = Host::ready(Setup::new().server(&[&relay.url()]));
    assert_eq!(host.ask("slow", json!({})).text(), "at last");
    let gets = |request: &crate::web::Request| request.method == "GET";
    assert_eq!(web.wait_for(1, "the stream", gets).len(), 1);
    assert_eq!(web.asked("initialize").len(), 1);
}

/// FM-23: without comments the stream is cut and comes back without a word to the host, and a call that was cut is
/// fetched.
#[test]
fn fm_23_a_stream_that_was_cut_for_being_idle_comes_back() {
    let call = std::sync::Mutex::new(None);
    let web = Web::start(move |request| {
        let mut call = call.lock().unwrap();
        match (request.method.as_str(), request.tool()) {
            (_, "slow") => {
                *call = Some(request.clone());
                Some(vec![stream(), numbered("c-1", ""), Act::Hang])
            }
            ("GET", _) => match (request.header("last-event-id"), &*call) {
                (Some("c-1"), Some(call)) => {
                    let answer = result(call, "at last").to_string();
                    Some(vec![stream(), numbered("c-2", &answer), Act::Close])
                }
                _ => Some(vec![stream(), Act::Hang]),
            },
            _ => None,
        }
    });
    let relay = Relay::to(web.address()).cutting_idle(Duration::from_millis(500));
    let mut host = Host::ready(Setup::new().server(&[&relay.url()]));
    assert_eq!(host.ask("slow", json!({})).text(), "at last");
    web.wait_for(2, "the stream again", |request| {
        request.method == "GET" && request.header("last-event-id").is_none()
    });
    host.ask("echo", json!({})).result();
    assert_eq!(web.asked("tools/call").len(), 2);
    assert_eq!(web.asked("initialize").len(), 1);
    host.logged(0, "lost", |_| true);
}

/// FM-23: a stream whose comments have stopped is dead, although nobody says so, and is opened again.
#[test]
fn fm_23_a_stream_that_falls_silent_comes_back() {
    let web = Web::start(move |request| {
        let beat = [
            Act::Send(":\n\n".into()),
            Act::Wait(Duration::from_millis(100)),
        ];
        let beats = std::iter::repeat_n(beat, 5).flatten();
        (request.method == "GET").then(|| {
            [stream()]
                .into_iter()
                .chain(beats)
                .chain([Act::Hang])
                .collect()
        })
    });
    let mut host = host(&web);
    web.wait_for(2, "the stream again", |request| request.method == "GET");
    host.ask("echo", json!({})).result();
    host.logged(0, "lost", |_| true);
}

/// A server that is heard is alive, whatever else it leaves unanswered; one that is not is given up.
#[test]
fn fm_23_comments_count_as_life() {
    for beats in [true, false] {
        let web = Web::start(move |request| {
            let probe = request.body["id"].as_str();
            if probe.is_some_and(|id| id.starts_with("outlive-")) {
                return Some(vec![Act::Hang]);
            }
            let pause = Duration::from_millis(if beats { 100 } else { 60_000 });
            let beat = [Act::Send(":\n\n".into()), Act::Wait(pause)];
            let beats = std::iter::repeat_n(beat, 600).flatten();
            (request.method == "GET").then(|| [stream()].into_iter().chain(beats).collect())
        });
        let flags = ["--probe-interval", "500ms", "--probe-patience", "1s"];
        let mut host = Host::ready(Setup::new().flags(&flags).server(&[&web.url()]));
        web.wait_for(1, "the stream", |request| request.method == "GET");
        if beats {
            std::thread::sleep(Duration::from_secs(4));
            host.ask("echo", json!({})).result();
            host.logged(0, "lost", |_| true);
        } else {
            let lost = host.event("the loss", |e| e["event"] == "lost");
            assert_eq!(lost["cause"]["kind"], "unresponsive");
        }
    }
}

/// FM-25: the stream is optional, whatever the server says instead.
#[test]
fn fm_25_a_server_without_the_stream_is_used_without() {
    for status in [400, 403, 404, 405, 406, 501] {
        let web =
            Web::start(move |request| (request.method == "GET").then(|| response(status, &[], "")));
        let mut host = host(&web);
        web.wait_for(1, "the stream", |request| request.method == "GET");
        host.ask("echo", json!({})).result();
        let gets = web
            .seen()
            .iter()
            .filter(|request| request.method == "GET")
            .count();
        assert_eq!(gets, 1, "{status}");
        host.logged(0, "lost", |_| true);
    }
}

/// FM-25: a server that ends every stream as soon as it is opened is asked ever more rarely.
#[test]
fn fm_25_streams_that_end_at_once_make_no_storm() {
    let web = Web::start(|request| (request.method == "GET").then(|| vec![stream(), Act::Close]));
    let mut host = host(&web);
    let gets = web.wait_for(4, "four streams", |request| request.method == "GET");
    let pauses: Vec<Duration> = gets.windows(2).map(|two| two[1].at - two[0].at).collect();
    assert!(pauses[0] >= Duration::from_millis(900), "{pauses:?}");
    assert!(pauses[1] > pauses[0].mul_f64(1.3), "{pauses:?}");
    assert!(pauses[2] > pauses[1].mul_f64(1.3), "{pauses:?}");
    host.ask("echo", json!({})).result();
}

/// FM-25: a stream that was open for long was healthy: it is opened again at once, however short others were before.
#[test]
fn fm_25_a_long_stream_is_opened_again_at_once() {
    let opened = AtomicUsize::new(0);
    let long = Duration::from_millis(10_500);
    let web = Web::start(move |request| {
        (request.method == "GET").then(|| match opened.fetch_add(1, Ordering::SeqCst) {
            3 => vec![stream(), Act::Wait(long), Act::Close],
            _ => vec![stream(), Act::Close],
        })
    });
    let _host = host(&web);
    let gets = web.wait_for(5, "five streams", |request| request.method == "GET");
    let pause = (gets[4].at - gets[3].at).saturating_sub(long);
    let before = gets[3].at - gets[2].at;
    assert!(pause < before / 2, "{pause:?} after {before:?}");
}

/// FM-26: the answer of a call whose stream was cut is fetched with the last event's id, which is kept
/// across a connection that brings nothing. The call is sent once.
#[test]
fn fm_26_a_cut_stream_is_resumed_to_its_answer() {
    let resumed = AtomicUsize::new(0);
    let call = std::sync::Mutex::new(None);
    let web = Web::start(move |request| {
        if request.tool() == "echo" {
            *call.lock().unwrap() = Some(request.clone());
            return Some(vec![
                stream(),
                Act::Send("id: c-1\nretry: 50\ndata:\n\n".into()),
                Act::Close,
            ]);
        }
        request.header("last-event-id")?;
        Some(match resumed.fetch_add(1, Ordering::SeqCst) {
            0 => vec![stream(), Act::Close],
            1 => response(503, &[], ""),
            _ => {
                let answer = result(call.lock().unwrap().as_ref()?, "at last").to_string();
                vec![stream(), numbered("c-2", &answer), Act::Close]
            }
        })
    });
    let mut host = host(&web);
    assert_eq!(host.ask("echo", json!({})).text(), "at last");
    let cursors: Vec<_> = web
        .seen()
        .iter()
        .filter_map(|r| r.header("last-event-id").map(str::to_string))
        .collect();
    assert_eq!(cursors, ["c-1", "c-1", "c-1"]);
    assert_eq!(web.asked("tools/call").len(), 1);
}

/// FM-26: a server that has forgotten the stream says so, and the call is settled.
#[test]
fn fm_26_a_stream_that_cannot_be_resumed_settles_its_call() {
    let web = Web::start(|request| {
        if request.header("last-event-id").is_some() {
            return Some(response(400, &[], ""));
        }
        (request.tool() == "echo").then(|| vec![stream(), numbered("c-1", ""), Act::Close])
    });
    let mut host = host(&web);
    let lost = host.ask("echo", json!({}));
    lost.refused("connection_lost");
    assert!(lost.message().contains("status 400"), "{}", lost.message());
}

/// An idle server that dies is noticed by its stream, before anybody calls.
#[test]
fn fm_01_an_idle_death_is_noticed_by_the_stream() {
    let open = |request: &crate::web::Request| {
        (request.method == "GET").then(|| vec![stream(), Act::Hang])
    };
    let web = Web::start(open);
    let mut host = host(&web);
    web.wait_for(1, "the stream", |request| request.method == "GET");
    let address = web.kill();
    host.event("the loss", |e| e["event"] == "lost");
    let _web = Web::start_at(address, open);
    host.event("ready again", |e| {
        e["state"] == "ready" && e["generation"] != 1
    });
    host.ask("echo", json!({})).result();
}

/// FM-73: what is said on a stream is passed on when it comes, not with the answer.
#[test]
fn fm_73_nothing_waits_for_the_end_of_its_stream() {
    let web = Web::start(|request| {
        let news = Act::Send(format!("data: {}\n\n", news(1)));
        (request.tool() == "echo").then(|| vec![stream(), news, Act::Hang])
    });
    let mut host = host(&web);
    let call = host.call("echo", json!({}));
    host.wait_for("the news", |m| m["params"]["data"] == 1);
    assert_eq!(host.answers(call), 0);
}

/// An answer of many lines, and one in pieces.
#[test]
fn answers_of_every_shape() {
    let web = Web::start(|request| {
        let text = result(request, "shaped");
        match request.tool() {
            "pretty" => Some(response(
                200,
                &[("content-type", "application/json; charset=utf-8")],
                &serde_json::to_string_pretty(&text).ok()?,
            )),
            "lines" => {
                let pretty = serde_json::to_string_pretty(&text).ok()?;
                let data: String = pretty
                    .lines()
                    .map(|line| format!("data: {line}\r\n"))
                    .collect();
                Some(vec![stream(), Act::Send(data + "\r\n"), Act::Close])
            }
            "pieces" => {
                let whole = format!("data: {text}\n\n");
                let (one, other) = whole.split_at(20);
                let pause = Act::Wait(Duration::from_millis(50));
                Some(vec![
                    stream(),
                    Act::Send(one.into()),
                    pause,
                    Act::Send(other.into()),
                    Act::Hang,
                ])
            }
            _ => None,
        }
    });
    let mut host = host(&web);
    for tool in ["pretty", "lines", "pieces"] {
        assert_eq!(host.ask(tool, json!({})).text(), "shaped", "{tool}");
    }
}
