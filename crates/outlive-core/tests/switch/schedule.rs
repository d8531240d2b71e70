//! Random steps of clients, server and session.

use outlive_core::Frame;
use outlive_core::error::Error;
use outlive_core::server::Channel;
use outlive_core::switch::{Client, Input, Sharing};
use serde_json::{Value, json};

use crate::world::{World, shutting_down};

const STEPS: usize = 80;

fn schedules(sharing: Sharing, count: u64) {
    let mut answers = 0;
    for seed in 1..=count {
        let run = std::panic::catch_unwind(|| {
            let mut world = World::new(sharing, seed);
            for _ in 0..STEPS {
                step(&mut world);
            }
            world.end();
            // Late words change nothing.
            world.say(
                &json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}),
                None,
            );
            if let Some(client) = world.clients.first().copied() {
                request(&mut world, client);
            }
            assert_eq!(world.owed, []);
            world.answers
        });
        answers += run.unwrap_or_else(|_| panic!("seed {seed}, {sharing:?}"));
    }
    // Something must have happened for all this to mean anything.
    assert!(answers as u64 > count * 4, "{answers} answers");
}

#[test]
fn nobody_hears_what_is_not_for_them_and_everybody_is_answered_once() {
    schedules(Sharing::Legacy, 4000);
}

#[test]
fn modern_requests_know_nothing_of_each_other() {
    schedules(Sharing::Modern, 4000);
}

#[test]
fn a_client_that_has_a_server_to_itself_is_answered_once() {
    schedules(Sharing::Alone, 2000);
}

fn step(world: &mut World) {
    let modern = world.sharing == Sharing::Modern;
    match world.dice.roll(20) {
        0 | 1 => join(world),
        2..=6 => {
            if let Some(client) = any_client(world) {
                request(world, client);
            }
        }
        7 => {
            if modern {
                leave_channel(world);
            } else {
                cancel(world);
            }
        }
        8 if !modern && world.dice.roll(3) == 0 => leave(world),
        9 if !modern => answer_ask(world),
        10 if !modern => subscribe(world),
        11 => junk(world),
        12 => refuse(world),
        13 => progress(world),
        14 => notify(world),
        15 => ask(world),
        _ => answer(world),
    }
}

fn any_client(world: &mut World) -> Option<Client> {
    let clients: Vec<Client> = match world.sharing {
        Sharing::Modern => world.clients.clone(),
        _ => world.ready.iter().copied().collect(),
    };
    world.dice.pick(&clients).copied()
}

fn join(world: &mut World) {
    let most = match world.sharing {
        Sharing::Legacy => 4,
        _ => 1,
    };
    if world.clients.len() >= most {
        return;
    }
    let client = match world.sharing {
        Sharing::Modern => Client(0),
        _ => Client(world.fresh()),
    };
    world.clients.push(client);
    if world.sharing != Sharing::Modern {
        world.ready.insert(client);
        let id = json!(world.dice.roll(3));
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}});
        world.request(client, id, "initialize", params);
        world.send(
            client,
            &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        );
    }
}

fn some_id(world: &mut World) -> Value {
    match world.dice.roll(5) {
        0 => json!("1"),
        1 => json!("a"),
        n => json!(n),
    }
}

fn request(world: &mut World, client: Client) {
    let (id, token) = (some_id(world), some_id(world));
    let mut params = json!({"name": "tool", "_meta": {}});
    let mut method = "tools/call";
    // Tokens are unique among a client's own requests (2025-11-25, progress).
    let taken = world
        .owed
        .iter()
        .any(|it| it.client == client && it.token.as_ref() == Some(&token));
    if world.dice.roll(2) == 0 && (!taken || world.sharing == Sharing::Modern) {
        params["_meta"]["progressToken"] = token;
    }
    if world.sharing == Sharing::Modern {
        let meta = &mut params["_meta"];
        meta["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
        meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
        match world.dice.roll(6) {
            0 => method = "subscriptions/listen",
            1 => params["_meta"]["io.modelcontextprotocol/logLevel"] = "info".into(),
            _ => {}
        }
    } else if world.dice.roll(8) == 0 {
        (method, params["level"]) = ("logging/setLevel", "info".into());
    }
    world.request(client, id, method, params);
}

/// A legacy client cancels, what it waits for or anything else.
fn cancel(world: &mut World) {
    let (Some(client), id) = (any_client(world), some_id(world)) else {
        return;
    };
    let initialize = world
        .upstream
        .iter()
        .any(|it| it.frame["method"] == "initialize");
    if initialize {
        // Its cancellation is ignored, and that is told elsewhere.
        return;
    }
    world.forgive(|it| it.client == client && it.id == id);
    let params = json!({"requestId": id});
    world.send(
        client,
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}),
    );
}

fn leave_channel(world: &mut World) {
    let channels: Vec<Channel> = world.open.keys().copied().collect();
    if let Some(channel) = world.dice.pick(&channels).copied() {
        let client = world.open.remove(&channel).expect("it is open");
        world.forgive(|it| it.channel == channel);
        world.closed.insert(channel);
        world.feed(Input::Left(client, channel));
    }
}

fn leave(world: &mut World) {
    let clients = world.clients.clone();
    if let Some(client) = world.dice.pick(&clients).copied() {
        world.clients.retain(|it| *it != client);
        world.ready.remove(&client);
        world.forgive(|it| it.client == client);
        world.open.retain(|_, owner| *owner != client);
        world.asked.retain(|it| it.1 != client);
        world.followed.retain(|it| it.0 != client);
        world.feed(Input::Gone(client));
    }
}

/// Somebody answers what was asked, perhaps of somebody else.
fn answer_ask(world: &mut World) {
    let asked = world.asked.clone();
    let (Some((id, of)), Some(client)) = (world.dice.pick(&asked).cloned(), any_client(world))
    else {
        return;
    };
    world.asked.retain(|it| *it != (id.clone(), client));
    let channel = Channel(world.fresh());
    world.open.insert(channel, client);
    let line = json!({"jsonrpc": "2.0", "id": id, "result": {"action": "accept"}}).to_string();
    let input = Input::Frame(client, channel, Frame::Line(line.into()));
    world.switch.handle(input);
    let mut passed = false;
    while let Some(output) = world.switch.poll() {
        match output {
            outlive_core::switch::Output::Answer(_) => passed = true,
            outlive_core::switch::Output::Done(..) => drop(world.open.remove(&channel)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(
        passed,
        client == of,
        "who was asked answers, and nobody else"
    );
}

fn subscribe(world: &mut World) {
    let Some(client) = any_client(world) else {
        return;
    };
    let uri = format!("test://{}", world.dice.roll(3));
    let id = json!(format!("s{}", world.fresh()));
    match world.dice.roll(3) {
        0 => {
            world.followed.remove(&(client, uri.clone()));
            world.request(client, id, "resources/unsubscribe", json!({"uri": uri}));
        }
        _ => {
            // Refused or not: nobody else may hear of it.
            world.followed.insert((client, uri.clone()));
            world.request(client, id, "resources/subscribe", json!({"uri": uri}));
        }
    }
}

fn junk(world: &mut World) {
    let Some(client) = any_client(world) else {
        return;
    };
    let lines: [&[u8]; 6] = [
        b"{",
        b"[]",
        b"\xff",
        br#"{"jsonrpc":"2.0","id":99,"result":{}}"#,
        br#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1}}"#,
        br#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#,
    ];
    let line = lines[world.dice.roll(lines.len())];
    let channel = Channel(world.fresh());
    world.open.insert(channel, client);
    let frame = Frame::Line(bytes::Bytes::from_static(line));
    world.feed(Input::Frame(client, channel, frame));
    assert!(world.closed.contains(&channel), "nothing holds it");
}

fn refuse(world: &mut World) {
    if world.upstream.is_empty() {
        return;
    }
    let at = world.dice.roll(world.upstream.len());
    match world.dice.roll(3) {
        0 => world.refuse(at, shutting_down()),
        _ => world.refuse(at, Error::Overloaded),
    }
}

fn any_upstream(world: &mut World) -> Option<Value> {
    let frames: Vec<Value> = world.upstream.iter().map(|it| it.frame.clone()).collect();
    world.dice.pick(&frames).cloned()
}

fn progress(world: &mut World) {
    let Some(frame) = any_upstream(world) else {
        return;
    };
    let params = &frame["params"];
    let token = match world.dice.roll(5) {
        // One that nobody ever had.
        0 => json!(1u64 << 40),
        _ => params["_meta"]["progressToken"].clone(),
    };
    let said = json!({"progressToken": token, "progress": 1, "secret": params["secret"]});
    world.say(
        &json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": said}),
        None,
    );
}

fn notify(world: &mut World) {
    let frame = any_upstream(world);
    let about = frame
        .as_ref()
        .and_then(|frame| frame["params"]["secret"].as_str().map(str::to_owned));
    let (method, params) = match world.dice.roll(4) {
        0 => ("notifications/tools/list_changed", json!({})),
        1 => {
            let uri = format!("test://{}", world.dice.roll(3));
            ("notifications/resources/updated", json!({"uri": uri}))
        }
        2 => (
            "notifications/message",
            json!({"level": "warning", "data": "x"}),
        ),
        _ => {
            let Some(frame) = frame.filter(|it| it["method"] == "subscriptions/listen") else {
                return;
            };
            let meta = json!({"io.modelcontextprotocol/subscriptionId": frame["id"]});
            (
                "notifications/subscriptions/acknowledged",
                json!({"_meta": meta, "secret": frame["params"]["secret"]}),
            )
        }
    };
    // A modern server logs for requests that ask for it only.
    let logs = |frame: &Value| {
        frame["params"]["_meta"]
            .get("io.modelcontextprotocol/logLevel")
            .is_some()
    };
    let asked = any_upstream(world).is_some_and(|frame| logs(&frame));
    if method == "notifications/message" && world.sharing == Sharing::Modern && !asked {
        return;
    }
    world.say(
        &json!({"jsonrpc": "2.0", "method": method, "params": params}),
        about,
    );
}

fn ask(world: &mut World) {
    if !world.asked.is_empty() && world.dice.roll(3) == 0 {
        let (id, _) = world.asked[0].clone();
        let params = json!({"requestId": id});
        return world.say(
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}),
            None,
        );
    }
    let about =
        any_upstream(world).and_then(|it| it["params"]["secret"].as_str().map(str::to_owned));
    let id = json!(format!("ask-{}", world.fresh()));
    let params = json!({"message": "?", "requestedSchema": {}});
    world.say(
        &json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params}),
        about,
    );
}

fn answer(world: &mut World) {
    if world.upstream.is_empty() {
        return;
    }
    let at = world.dice.roll(world.upstream.len());
    let upstream = world.upstream.swap_remove(at);
    let id = &upstream.frame["id"];
    let message = match world.dice.roll(8) {
        0 => json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": "no"}}),
        _ if upstream.frame["method"] == "initialize" => {
            let result = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
            json!({"jsonrpc": "2.0", "id": id, "result": result})
        }
        _ => {
            let secret = &upstream.frame["params"]["secret"];
            json!({"jsonrpc": "2.0", "id": id, "result": {"secret": secret}})
        }
    };
    world.say(&message, None);
}
