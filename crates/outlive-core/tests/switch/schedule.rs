//! Random steps of clients, server and session.

use outlive_core::Frame;
use outlive_core::error::{Error, Limit};
use outlive_core::server::Channel;
use outlive_core::switch::{Client, Input, Sharing};
use serde_json::{Value, json};

use std::collections::BTreeMap;
use std::time::Duration;

use outlive_core::error::Bound;

use crate::world::{LEVELS, Upstream, World, is_state, shutting_down};

const STEPS: usize = 80;

/// How many schedules, and from which seed on: `OUTLIVE_SCHEDULES` is for the simulation of the session and counts five
/// times as much there.
fn seeds(count: u64) -> std::ops::RangeInclusive<u64> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    if let Some(only) = number("OUTLIVE_SEED") {
        return only..=only;
    }
    let first = number("OUTLIVE_FIRST_SEED").unwrap_or(1).max(1);
    let count = number("OUTLIVE_SCHEDULES").map_or(count, |all| (all / 5).max(1));
    first..=first + count - 1
}

fn schedules(sharing: Sharing, count: u64, must_meet: &[&str]) {
    let mut answers = 0;
    let mut met: BTreeMap<&str, usize> = BTreeMap::new();
    let seeds = seeds(count);
    for seed in seeds.clone() {
        let run = std::panic::catch_unwind(|| {
            let mut world = World::new(sharing, seed);
            world.tells = std::env::var("OUTLIVE_SEED").is_ok();
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
            assert!(world.owed.is_empty(), "{:?}", world.owed);
            (world.answers, world.met)
        });
        let (some, came_across) = run.unwrap_or_else(|_| panic!("seed {seed}, {sharing:?}"));
        answers += some;
        for (what, times) in came_across {
            *met.entry(what).or_default() += times;
        }
    }
    if std::env::var("OUTLIVE_SEED").is_ok() {
        return;
    }
    // Something must have happened for all this to mean anything.
    let count = seeds.count() as u64;
    assert!(answers as u64 > count * 4, "{answers} answers");
    for what in must_meet {
        let times = met.get(what).copied().unwrap_or_default() as u64;
        assert!(
            times > count / 25,
            "{what}: {times} times in {count} schedules"
        );
    }
}

/// What schedules of each kind have to come across.
const EVERYWHERE: [&str; 10] = [
    "asked about what was abandoned",
    "withdrawn",
    "told how far it is with what was abandoned",
    "logged about what was abandoned",
    "said something of its own about what was abandoned",
    "answered late",
    "took too long",
    "died",
    "said on its stream",
    "said on a stream nobody reads",
];

#[test]
fn nobody_hears_what_is_not_for_them_and_everybody_is_answered_once() {
    let legacy = ["left alone", "cancelled before it was sent"];
    schedules(Sharing::Shared, 4000, &[&EVERYWHERE[..], &legacy].concat());
}

#[test]
fn modern_requests_know_nothing_of_each_other() {
    schedules(Sharing::Pooled, 4000, &EVERYWHERE[1..]);
}

#[test]
fn a_client_that_has_a_server_to_itself_is_answered_once() {
    schedules(Sharing::Dedicated, 2000, &EVERYWHERE);
}

fn step(world: &mut World) {
    let modern = world.sharing == Sharing::Pooled;
    match world.dice.roll(24) {
        20 => late_answer(world),
        21 => on_its_stream(world),
        22 if world.dice.roll(3) == 0 => die(world),
        23 => take_too_long(world),

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
        8 if world.dice.roll(6) == 0 => withdraw(world),
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
        Sharing::Pooled => world.clients.clone(),
        _ => world.ready.iter().copied().collect(),
    };
    world.dice.pick(&clients).copied()
}

fn join(world: &mut World) {
    let most = match world.sharing {
        Sharing::Shared => 4,
        _ => 1,
    };
    if world.clients.len() >= most {
        return;
    }
    let client = match world.sharing {
        Sharing::Pooled => Client(0),
        _ => Client(world.fresh()),
    };
    world.clients.push(client);
    if world.sharing != Sharing::Pooled {
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
    if world.dice.roll(2) == 0 && (!taken || world.sharing == Sharing::Pooled) {
        params["_meta"]["progressToken"] = token;
    }
    if world.sharing == Sharing::Pooled {
        let meta = &mut params["_meta"];
        meta["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
        meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
        match world.dice.roll(6) {
            0 => method = "subscriptions/listen",
            1..=2 => params["_meta"]["io.modelcontextprotocol/logLevel"] = "info".into(),
            _ => {}
        }
    } else if world.dice.roll(8) == 0 {
        let level = LEVELS[world.dice.roll(LEVELS.len())];
        (method, params["level"]) = ("logging/setLevel", level.into());
        world.choices.entry(client).or_default().choosing += 1;
    }
    world.request(client, id, method, params);
}

/// A legacy client cancels, what it waits for or anything else.
fn cancel(world: &mut World) {
    let Some(client) = any_client(world) else {
        return;
    };
    let waits: Vec<Value> = world
        .owed
        .iter()
        .filter(|it| it.client == client)
        .map(|it| it.id.clone())
        .collect();
    let id = match world.dice.roll(2) {
        0 => some_id(world),
        _ => world.dice.pick(&waits).cloned().unwrap_or(json!(1)),
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
        world.followed.retain(|it, _| it.0 != client);
        world.choices.remove(&client);
        if world.clients.is_empty() {
            world.meet("left alone");
        }
        world.feed(Input::Gone(client));
    }
}

/// The token is withdrawn of a client that is in the middle of something, or of a modern request.
fn withdraw(world: &mut World) {
    if world.sharing == Sharing::Pooled {
        let channels: Vec<(Channel, Client)> = world.open.iter().map(|it| (*it.0, *it.1)).collect();
        if let Some((channel, client)) = world.dice.pick(&channels).copied() {
            world.meet("withdrawn");
            world.withdraw(client, Some(channel));
        }
        return;
    }
    let clients = world.clients.clone();
    let Some(client) = world.dice.pick(&clients).copied() else {
        return;
    };
    world.meet("withdrawn");
    world.asked.retain(|it| it.1 != client);
    world.ready.remove(&client);
    world.followed.retain(|it, _| it.0 != client);
    world.withdraw(client, None);
    world.clients.retain(|it| *it != client);
    world.choices.remove(&client);
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
    let input = Input::Frame(client, channel, Frame::read(line.into()));
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
    let uri = some_uri(world);
    let id = json!(format!("s{}", world.fresh()));
    match world.dice.roll(3) {
        0 => {
            world.request(client, id, "resources/unsubscribe", json!({"uri": uri}));
        }
        _ => {
            world.request(client, id, "resources/subscribe", json!({"uri": uri}));
        }
    }
}

/// One of a few resources, whose names begin with each other's.
fn some_uri(world: &mut World) -> String {
    let uris = [
        "test://u",
        "test://user",
        "test://u/part",
        "test://v",
        "test://",
        "",
    ];
    world
        .dice
        .pick(&uris)
        .copied()
        .unwrap_or_default()
        .to_owned()
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
    let frame = Frame::read(bytes::Bytes::from_static(line));
    world.feed(Input::Frame(client, channel, frame));
    assert!(world.closed.contains(&channel), "nothing holds it");
}

fn refuse(world: &mut World) {
    if world.upstream.is_empty() {
        return;
    }
    let at = world.dice.roll(world.upstream.len());
    if is_state(&world.upstream[at].frame) {
        // Whether it was done is not said; others tell of that.
        return;
    }
    match world.dice.roll(3) {
        0 => world.refuse(at, shutting_down()),
        _ => {
            let limit = Limit::held(1);
            world.refuse(at, Error::Overloaded { limit });
        }
    }
}

/// The session gives up on a request, and the server goes on with it.
fn take_too_long(world: &mut World) {
    let calls = |it: &Upstream| it.frame["method"] == "tools/call";
    let Some(at) = world.upstream.iter().position(calls) else {
        return;
    };
    world.meet("took too long");
    let upstream = world.upstream[at].clone();
    let after = Duration::from_secs(1);
    world.refuse(
        at,
        Error::Timeout {
            after,
            bound: Bound::Idle,
        },
    );
    world.abandon(upstream);
}

/// The server answers what nobody waits for: the session drops the answer, and tells that it came.
fn late_answer(world: &mut World) {
    if world.abandoned.is_empty() {
        return;
    }
    let at = world.dice.roll(world.abandoned.len());
    let upstream = world.abandoned.swap_remove(at);
    world.meet("answered late");
    world.feed(Input::Over(upstream.id));
}

/// The server dies. What is safe to repeat is sent to the next.
fn die(world: &mut World) {
    world.meet("died");
    world.die(|it| it.frame["method"] != "tools/call");
}

/// The server says something on the stream of a request: whoever waits for it hears it there, all of it, whoever else
/// is at work.
fn on_its_stream(world: &mut World) {
    let live = world.abandoned.is_empty() || world.dice.roll(2) == 0;
    let from = match live {
        true => world.upstream.clone(),
        false => world.abandoned.clone(),
    };
    let calls: Vec<Upstream> = from
        .into_iter()
        .filter(|it| it.frame["method"] == "tools/call")
        .collect();
    let Some(upstream) = world.dice.pick(&calls).cloned() else {
        return;
    };
    let id = format!("ask-{}", world.fresh());
    let modern = world.sharing == Sharing::Pooled;
    let message = match world.dice.roll(3) {
        0 => {
            json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "emergency", "data": "x"}})
        }
        1 if !modern => {
            json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}})
        }
        _ => json!({"jsonrpc": "2.0", "method": "notifications/custom", "params": {"x": 1}}),
    };
    let heard = world.say_of(&upstream, live, &message);
    assert_eq!(heard, usize::from(live), "{message} of {upstream:?}");
    world.meet(if live {
        "said on its stream"
    } else {
        "said on a stream nobody reads"
    });
}

fn any_upstream(world: &mut World) -> Option<Value> {
    let frames: Vec<Value> = world.upstream.iter().map(|it| it.frame.clone()).collect();
    world.dice.pick(&frames).cloned()
}

/// Something the server is at work on, whether anybody waits for it or not. A handshake is no such thing.
fn any_work(world: &mut World) -> Option<(Value, bool)> {
    let of = |all: &[Upstream], live: bool| -> Vec<(Value, bool)> {
        let works = all.iter().filter(|it| it.frame["method"] == "tools/call");
        works.map(|it| (it.frame.clone(), live)).collect()
    };
    let work = [of(&world.upstream, true), of(&world.abandoned, false)].concat();
    world.dice.pick(&work).cloned()
}

fn progress(world: &mut World) {
    let abandoned: Vec<Value> = world.abandoned.iter().map(|it| it.frame.clone()).collect();
    let frame = match world.dice.roll(3) {
        0 => world.dice.pick(&abandoned).cloned(),
        _ => any_upstream(world),
    };
    let Some(frame) = frame else {
        return;
    };
    if abandoned.contains(&frame) && frame["params"]["_meta"].get("progressToken").is_some() {
        world.meet("told how far it is with what was abandoned");
    }
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
    let work = any_work(world);
    let about = work
        .as_ref()
        .and_then(|(frame, _)| frame["params"]["secret"].as_str().map(str::to_owned));
    let abandoned = work.as_ref().is_some_and(|(_, live)| !live);
    let say = |world: &mut World, method: &str, params: Value, about| {
        world.say(
            &json!({"jsonrpc": "2.0", "method": method, "params": params}),
            about,
        );
    };
    match world.dice.roll(6) {
        0 => say(world, "notifications/tools/list_changed", json!({}), None),
        1 => {
            let uri = some_uri(world);
            say(
                world,
                "notifications/resources/updated",
                json!({"uri": uri}),
                None,
            );
        }
        2 | 3 => {
            // A modern server logs for requests that ask for it only.
            let logs = |frame: &Value| {
                frame["params"]["_meta"]
                    .get("io.modelcontextprotocol/logLevel")
                    .is_some()
            };
            let asked = work.as_ref().is_some_and(|(frame, _)| logs(frame));
            if world.sharing == Sharing::Pooled && !asked {
                return;
            }
            if abandoned {
                world.meet("logged about what was abandoned");
            }
            let least = world.level.unwrap_or(1);
            let level = LEVELS[least + world.dice.roll(LEVELS.len() - least)];
            say(
                world,
                "notifications/message",
                json!({"level": level, "data": "x"}),
                about,
            );
        }
        4 => {
            if abandoned {
                world.meet("said something of its own about what was abandoned");
            }
            if work.is_some() {
                say(world, "notifications/custom", json!({"x": 1}), about);
            }
        }
        _ => {
            let frame = any_upstream(world);
            let Some(frame) = frame.filter(|it| it["method"] == "subscriptions/listen") else {
                return;
            };
            let meta = json!({"io.modelcontextprotocol/subscriptionId": frame["id"]});
            let params = json!({"_meta": meta, "secret": frame["params"]["secret"]});
            say(
                world,
                "notifications/subscriptions/acknowledged",
                params,
                None,
            );
        }
    }
}

fn ask(world: &mut World) {
    if !world.asked.is_empty() && world.dice.roll(3) == 0 {
        let (id, _) = world.asked[0].clone();
        let params = json!({"requestId": id});
        world.say(
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}),
            None,
        );
        return;
    }
    let work = any_work(world);
    if work.as_ref().is_some_and(|(_, live)| !live) {
        world.meet("asked about what was abandoned");
    }
    let about = work.and_then(|(it, _)| it["params"]["secret"].as_str().map(str::to_owned));
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
    let message = match upstream.fails {
        true => json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": "no"}}),
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
