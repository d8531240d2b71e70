//! The modern era (2026-07-28): no session, headers on every request, streams that are requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::rig::{Host, Setup};
use crate::web::{Act, Reply, Request, Web, event, message, response, stream};

const META: &str = "io.modelcontextprotocol/protocolVersion";
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

fn params(mut params: Value) -> Value {
    params["_meta"] = json!({
        META: "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "rig", "version": "0"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params
}

fn modern(request: &Request) -> Option<Reply> {
    let result = |result: Value| {
        Some(message(
            &json!({"jsonrpc": "2.0", "id": request.body["id"], "result": result}),
        ))
    };
    match request.rpc() {
        "server/discover" => result(json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "serverInfo": {"name": "new", "version": "1"}})),
        "tools/list" => result(json!({"tools": [
            {"name": "sql", "inputSchema": {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}},
            {"name": "bad", "inputSchema": {"type": "object", "properties": {"a": {"type": "number", "x-mcp-header": "A"}}}},
        ]})),
        "tools/call" if request.tool() == "hang" => Some(vec![stream(), Act::Hang]),
        "tools/call" => result(json!({"content": [{"type": "text", "text": "new"}]})),
        _ => Some(response(404, &[("content-type", "application/json")], &json!({"jsonrpc": "2.0", "id": request.body["id"], "error": {"code": -32601, "message": "Method not found"}}).to_string())),
    }
}

fn host(url: &str) -> Host {
    let mut host = Setup::new().server(&[url]).start();
    let id = host.request("server/discover", params(json!({})));
    host.answer(id).result();
    host
}

fn call(host: &mut Host, tool: &str, arguments: Value) -> i64 {
    host.request(
        "tools/call",
        params(json!({"name": tool, "arguments": arguments})),
    )
}

/// Every request says in its headers what it is, marked arguments included; a tool whose marks are
/// invalid is not shown; an error with its status is an error.
#[test]
fn fm_45_requests_are_mirrored_in_their_headers() {
    let web = Web::start(modern);
    let mut host = host(&web.url());
    let list = host.request("tools/list", params(json!({})));
    let tools = host.answer(list).result()["tools"].clone();
    assert_eq!(tools.as_array().map(Vec::len), Some(1), "{tools}");
    let id = call(&mut host, "sql", json!({"region": "us-west1"}));
    assert_eq!(host.answer(id).text(), "new");
    let id = host.request("resources/read", params(json!({"uri": "file:///ü"})));
    assert_eq!(host.answer(id).error()["code"], -32601);

    for request in web.seen() {
        assert_eq!(request.method, "POST");
        assert_eq!(request.header("mcp-protocol-version"), Some("2026-07-28"));
        assert_eq!(request.header("mcp-method"), Some(request.rpc()));
        assert_eq!(request.header("mcp-session-id"), None);
    }
    let called = web.asked("tools/call");
    assert_eq!(called[0].header("mcp-name"), Some("sql"));
    assert_eq!(called[0].header("mcp-param-region"), Some("us-west1"));
    let read = web.asked("resources/read");
    assert_eq!(
        read[0].header("mcp-name"),
        Some("=?base64?ZmlsZTovLy/DvA==?=")
    );
    assert!(
        host.last_stderr().contains("bad"),
        "the tool that was left out is named"
    );
}

/// A server that compares headers with the body and mirrors another argument than it did when its tools were
/// listed. `streams`: it lists them on a stream.
fn mirrors_otherwise(request: &Request, streams: bool) -> Option<Reply> {
    let say = |value: Value| {
        let answer = json!({"jsonrpc": "2.0", "id": request.body["id"], "result": value});
        match streams {
            true => vec![stream(), event(&answer), Act::Close],
            false => message(&answer),
        }
    };
    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Zone"}}}});
    match (request.rpc(), request.header("mcp-param-zone")) {
        ("tools/list", _) if request.body["params"]["cursor"].is_null() => {
            Some(say(json!({"tools": [tool("other")], "nextCursor": "2"})))
        }
        ("tools/list", _) => Some(say(json!({"tools": [tool("sql")]}))),
        ("tools/call", Some(zone)) if zone == request.body["params"]["arguments"]["region"] => {
            modern(request)
        }
        ("tools/call", _) => Some(response(400, &[("content-type", "application/json")], &json!({"jsonrpc": "2.0", "id": request.body["id"], "error": {"code": -32020, "message": "Header mismatch: Mcp-Param-Zone is missing"}}).to_string())),
        _ => modern(request),
    }
}

/// FM-45: a call that is refused for its headers is sent again, once, with those that a new list of tools asks
/// for, whether the host has listed them before or never.
#[test]
fn fm_45_a_call_with_stale_headers_is_repaired() {
    for (listed, streams) in [(true, false), (false, false), (false, true)] {
        let old = AtomicUsize::new(0);
        let web = Web::start(move |request| {
            let first =
                request.rpc() == "tools/list" && listed && old.fetch_add(1, Ordering::SeqCst) == 0;
            match first {
                true => modern(request),
                false => mirrors_otherwise(request, streams),
            }
        });
        let mut host = host(&web.url());
        if listed {
            let list = host.request("tools/list", params(json!({})));
            host.answer(list).result();
        }
        let before = web.asked("tools/list").len();
        let id = call(&mut host, "sql", json!({"region": "us-west1"}));
        assert_eq!(host.answer(id).text(), "new");
        assert_eq!(host.answers(id), 1);
        assert_eq!(web.asked("tools/call").len(), 2);
        assert_eq!(web.asked("tools/list").len() - before, 2, "two pages");

        // What was learnt is kept.
        let id = call(&mut host, "sql", json!({"region": "eu"}));
        host.answer(id).result();
        assert_eq!(web.asked("tools/call").len(), 3);
    }
}

/// FM-45: where a new list asks for the same headers, the server's refusal stands, and is not asked for again.
#[test]
fn fm_45_a_mismatch_that_cannot_be_repaired_is_told() {
    let web = Web::start(|request| {
        match request.rpc() {
        "tools/call" => Some(response(400, &[("content-type", "application/json")], &json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32020, "message": "never right"}}).to_string())),
        _ => modern(request),
    }
    });
    let mut host = host(&web.url());
    let list = host.request("tools/list", params(json!({})));
    host.answer(list).result();
    let id = call(&mut host, "sql", json!({"region": "us-west1"}));
    assert_eq!(host.answer(id).error()["code"], -32020);
    assert_eq!(web.asked("tools/call").len(), 1);
}

/// Many calls with stale headers at once need one new list.
#[test]
fn stale_headers_are_looked_up_once_for_all() {
    let web = Web::start(|request| {
        if request.rpc() == "tools/list" {
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
        mirrors_otherwise(request, false)
    });
    let mut host = host(&web.url());
    let calls: Vec<i64> = (0..8)
        .map(|_| call(&mut host, "sql", json!({"region": "eu"})))
        .collect();
    for id in calls {
        assert_eq!(host.answer(id).text(), "new");
    }
    assert_eq!(web.asked("tools/list").len(), 2, "one list of two pages");
}

/// A modern host on a legacy server is refused with a sentence, whatever it asks first; it can still shake
/// hands.
#[test]
fn a_modern_host_on_a_legacy_server_is_told() {
    let web = Web::start(|_| None);
    let mut host = Setup::new().server(&[&web.url()]).start();
    let first = call(&mut host, "echo", json!({}));
    let answer = host.answer(first);
    assert_eq!(answer.kind(), Some("unsupported"));
    let about = &answer.error()["data"]["outlive"];
    assert_eq!(about["outcome"], "rejected");
    for words in ["status 400", "before 2026-07-28", "`initialize`"] {
        assert!(answer.message().contains(words), "{}", answer.message());
    }
    host.initialize();
    host.ask("echo", json!({})).result();
}

/// A legacy host on a modern server is refused with a sentence, in whichever way the server says no.
#[test]
fn a_legacy_host_on_a_modern_server_is_told() {
    for (status, error) in [
        (
            400,
            json!({"code": -32022, "message": "no such version", "data": {"supported": ["2026-07-28"]}}),
        ),
        (400, json!({"code": -32020, "message": "no header"})),
        (404, json!({"code": -32601, "message": "Method not found"})),
        (200, json!({"code": -32601, "message": "Method not found"})),
    ] {
        let code = error["code"].clone();
        let web = Web::start(move |request| match request.rpc() {
            "initialize" => Some(response(
                status,
                &[("content-type", "application/json")],
                &json!({"jsonrpc": "2.0", "id": request.body["id"], "error": error}).to_string(),
            )),
            _ => modern(request),
        });
        let mut host = Setup::new().server(&[&web.url()]).start();
        let id = host.request("initialize", json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "rig", "version": "0"}}));
        let answer = host.answer(id);
        assert_eq!(answer.error()["code"], code);
        for words in ["no handshake", "2026-07-28", "`initialize`"] {
            assert!(answer.message().contains(words), "{}", answer.message());
        }
        assert!(web.seen().iter().all(|request| request.method == "POST"));
    }
}

/// Once a server is known to be modern, a refusal is a refusal.
#[test]
fn a_modern_server_may_refuse_without_being_taken_for_an_old_one() {
    let web = Web::start(|request| match request.tool() {
        "odd" => Some(response(422, &[], "")),
        _ => modern(request),
    });
    let mut host = host(&web.url());
    let id = call(&mut host, "odd", json!({}));
    host.answer(id).refused("rejected");
}

/// FM-46, modern: closing the stream is the cancellation; nothing is posted.
#[test]
fn fm_46_a_modern_call_is_cancelled_by_closing_its_stream() {
    let web = Web::start(modern);
    let mut host = host(&web.url());
    let id = call(&mut host, "hang", json!({}));
    web.wait_for(1, "the call", |request| request.tool() == "hang");
    crate::rig::until("the stream", || (web.hanging() == 1).then_some(()));
    host.cancel(id);
    crate::rig::until("the end of the stream", || {
        (web.hanging() == 0).then_some(())
    });
    let next = call(&mut host, "sql", json!({}));
    host.answer(next).result();
    assert_eq!(web.asked("notifications/cancelled").len(), 0);
    assert_eq!(host.answers(id), 0);
}

/// A stream of notifications that is cut is opened again, and the host does not notice.
#[test]
fn a_subscription_that_is_cut_is_opened_again() {
    let opened = Arc::new(AtomicUsize::new(0));
    let count = opened.clone();
    let web = Web::start(move |request| {
        if request.rpc() != "subscriptions/listen" {
            return modern(request);
        }
        let meta = json!({SUBSCRIPTION: request.body["id"]});
        let acknowledged = json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {"_meta": meta}});
        let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"_meta": meta}});
        Some(match count.fetch_add(1, Ordering::SeqCst) {
            0 => vec![stream(), event(&acknowledged), Act::Close],
            1 => vec![Act::Reset],
            _ => vec![stream(), event(&acknowledged), event(&changed), Act::Hang],
        })
    });
    let mut host = host(&web.url());
    let id = host.request(
        "subscriptions/listen",
        params(json!({"notifications": {"toolsListChanged": true}})),
    );
    host.wait_for("the change", |m| {
        m["method"] == "notifications/tools/list_changed"
    });
    assert_eq!(
        host.notified("notifications/subscriptions/acknowledged")
            .len(),
        1
    );
    assert_eq!(host.answers(id), 0);
    assert_eq!(web.asked("subscriptions/listen").len(), 3);
}

/// A stream of notifications whose comments have stopped is dead, and is opened again.
#[test]
fn a_subscription_that_falls_silent_is_opened_again() {
    let web = Web::start(move |request| {
        if request.rpc() != "subscriptions/listen" {
            return modern(request);
        }
        let meta = json!({SUBSCRIPTION: request.body["id"]});
        let acknowledged = json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {"_meta": meta}});
        let beat = [
            Act::Send(":\n\n".into()),
            Act::Wait(std::time::Duration::from_millis(100)),
        ];
        let begun = [stream(), event(&acknowledged)];
        let beats = std::iter::repeat_n(beat, 5).flatten();
        Some(begun.into_iter().chain(beats).chain([Act::Hang]).collect())
    });
    let mut host = host(&web.url());
    let listen = json!({"notifications": {"toolsListChanged": true}});
    let id = host.request("subscriptions/listen", params(listen));
    web.wait_for(2, "the stream again", |request| {
        request.rpc() == "subscriptions/listen"
    });
    assert_eq!(host.answers(id), 0);
}

/// FM-42, FM-43 over HTTP: a server that breaks off, or never answers, when it is asked `server/discover` is taken for
/// a legacy one, and can be used.
#[test]
fn fm_43_a_server_that_leaves_the_probe_unanswered_is_a_legacy_one() {
    for act in [Act::Hang, Act::Reset, Act::Close] {
        let shown = format!("{act:?}");
        let web = Web::start(move |request| {
            (request.rpc() == "server/discover").then(|| vec![act.clone()])
        });
        let mut host = Setup::new()
            .flags(&["--discover-timeout", "1s"])
            .server(&[&web.url()])
            .start();
        let id = host.request("server/discover", params(json!({})));
        let answer = host.answer(id);
        assert_eq!(answer.kind(), Some("unsupported"), "{shown}");
        assert!(answer.message().contains("`initialize`"), "{shown}");
        host.initialize();
        host.ask("echo", json!({})).result();
    }
}

/// FM-45: fields we do not know pass in both directions and in both eras, and so does a question in place of a result.
#[test]
fn fm_45_unknown_fields_pass_in_both_directions() {
    let odd = json!({"x": [1.0, 1e30, null, "\u{2028} é"], "id": 7, "method": "tools/list"});
    let told = odd.clone();
    let web = Web::start(move |request| {
        let meta = json!({"a/b": told});
        let asks = request.body["params"]["requestState"] != "s t\u{e4}te";
        let result = match asks {
            true => {
                json!({"resultType": "input_required", "requestState": "s t\u{e4}te", "inputRequests": {"q": {"method": "elicitation/create", "params": told}}, "_meta": meta, "odd": told})
            }
            false => json!({"content": [], "structuredContent": told, "_meta": meta, "odd": told}),
        };
        match request.tool() {
            "odd" => Some(message(
                &json!({"jsonrpc": "2.0", "id": request.body["id"], "result": result, "extra": told}),
            )),
            _ if request.header("mcp-method").is_some() => modern(request),
            _ => None,
        }
    });
    for is_modern in [true, false] {
        let mut host = match is_modern {
            true => host(&web.url()),
            false => Host::ready(Setup::new().server(&[&web.url()])),
        };
        let mut asked = json!({"name": "odd", "arguments": odd, "odd": odd});
        if is_modern {
            asked = params(asked);
        }
        asked["_meta"]["a/b"] = odd.clone();
        for state in [None, Some("s t\u{e4}te")] {
            if let Some(state) = state {
                asked["requestState"] = json!(state);
                asked["inputResponses"] = json!({"q": odd});
            }
            let id = host.request("tools/call", asked.clone());
            let answer = host.answer(id);
            assert_eq!(answer.result()["odd"], odd);
            assert_eq!(answer.result()["_meta"]["a/b"], odd);
            assert_eq!(answer.0["extra"], odd);
            let asks = answer.result()["resultType"] == "input_required";
            assert_eq!(asks, state.is_none());
            let seen = web.asked("tools/call");
            assert_eq!(
                seen.last().map(|request| &request.body["params"]),
                Some(&asked)
            );
        }
    }
}

/// FM-44: whatever a legacy server says to `server/discover`, the host gets an error and can go on with
/// `initialize`.
#[test]
fn fm_44_a_legacy_server_may_refuse_to_be_discovered_in_any_way() {
    let rpc = |code: i64| {
        json!({"jsonrpc": "2.0", "id": "server-error", "error": {"code": code, "message": "no"}})
            .to_string()
    };
    for (status, body) in [
        (400, String::new()),
        (400, rpc(-32600)),
        (404, "<html>".into()),
        (405, String::new()),
        (406, String::new()),
        (422, String::new()),
        (200, rpc(-32601)),
    ] {
        let shown = body.clone();
        let web = Web::start(move |request| {
            (request.rpc() == "server/discover")
                .then(|| response(status, &[("content-type", "application/json")], &body))
        });
        let mut host = Setup::new().server(&[&web.url()]).start();
        let id = host.request("server/discover", params(json!({})));
        host.answer(id).error();
        host.initialize();
        host.ask("echo", json!({})).result();
        assert_eq!(web.asked("initialize").len(), 1, "{status} {shown}");
    }
}

/// `--era` forces one.
#[test]
fn the_era_can_be_forced() {
    let web = Web::start(modern);
    let mut host = Setup::new()
        .flags(&["--era", "modern"])
        .server(&[&web.url()])
        .start();
    let id = host.request("initialize", json!({}));
    assert_eq!(host.answer(id).error()["code"], -32022);
    let mut host = Setup::new()
        .flags(&["--era", "legacy"])
        .server(&[&web.url()])
        .start();
    let id = host.request("server/discover", params(json!({})));
    assert_eq!(host.answer(id).kind(), Some("unsupported"));
    assert!(web.seen().is_empty());
}
