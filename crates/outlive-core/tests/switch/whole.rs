//! Clients, the switch, a session and a server under it that dies: what clients have subscribed to outlasts the server.
//!
//! The server does what it is told in the order it is told, and answers in any order, late or never. In the end the
//! server, and the next one, have exactly what clients believe they have (invariant 9).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use outlive_core::cause::Exit;
use outlive_core::policy::Policy;
use outlive_core::server::Channel;
use outlive_core::switch::{Client, Input, Output, Sharing, Switch, SwitchLimits};
use outlive_core::{
    Event, Frame, Generation, Input as SessionInput, LinkInput, LinkOrder, Output as SessionOutput,
    Session, State, Time,
};
use serde_json::{Value, json};

use crate::world::Dice;

const URIS: [&str; 3] = ["test://a", "test://b", "test://b/c"];
const STEPS: usize = 60;

#[derive(Default)]
struct Server {
    subscribed: BTreeSet<String>,
    level: Option<String>,
    /// Answers that are not given.
    late: Vec<Value>,
}

struct Whole {
    switch: Switch,
    session: Session,
    now: Time,
    dice: Dice,
    server: Option<(Generation, Server)>,
    clients: BTreeSet<Client>,
    /// What each client last asked for: true if to be told.
    wants: BTreeMap<(Client, String), bool>,
    /// Requests that are not answered.
    owed: BTreeMap<(Client, u64), (Channel, String)>,
    /// Resources about which a request has failed: it was in flight at two deaths.
    doubtful: BTreeSet<String>,
    next: u64,
    session_says: VecDeque<Input>,
    to_session: VecDeque<SessionInput>,
    deaths: usize,
    tells: bool,
}

impl Whole {
    fn new(seed: u64) -> Whole {
        let mut whole = Whole {
            switch: Switch::new(Sharing::Shared, SwitchLimits::default()),
            session: Session::new(Policy::default(), seed),
            now: Time::ZERO,
            dice: Dice::new(seed),
            server: None,
            clients: BTreeSet::new(),
            wants: BTreeMap::new(),
            owed: BTreeMap::new(),
            doubtful: BTreeSet::new(),
            next: 0,
            session_says: VecDeque::new(),
            to_session: VecDeque::new(),
            deaths: 0,
            tells: std::env::var("OUTLIVE_SEED").is_ok(),
        };
        whole.to_session.push_back(SessionInput::Start);
        whole.run();
        whole
    }

    fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Everything that follows from what has happened, at this moment.
    fn run(&mut self) {
        loop {
            if let Some(input) = self.to_session.pop_front() {
                self.session.handle(self.now, input);
                while let Some(output) = self.session.poll() {
                    self.session_says(output);
                }
            } else if let Some(input) = self.session_says.pop_front() {
                self.feed(input);
            } else {
                return;
            }
        }
    }

    fn feed(&mut self, input: Input) {
        if self.tells {
            println!("> {input:?}");
        }
        self.switch.handle(input);
        while let Some(output) = self.switch.poll() {
            match output {
                Output::Cancel(_, message, reason) => {
                    let input = SessionInput::Abandon(message, reason);
                    self.to_session.push_back(input);
                }
                Output::Call(_, it) | Output::Answer(it) | Output::Notify(_, _, it) => {
                    let input = SessionInput::Host(Frame::Message(it));
                    self.to_session.push_back(input);
                }
                Output::Send(client, channel, line) | Output::Offer(client, channel, line) => {
                    let message: Value = serde_json::from_slice(line.bytes()).expect("JSON");
                    self.heard(client, channel, &message);
                }
                Output::Done(..) => {}
            }
        }
    }

    fn heard(&mut self, client: Client, channel: Channel, message: &Value) {
        assert!(self.clients.contains(&client), "{message}");
        if message.get("method").is_none() {
            let id = message["id"].as_u64().expect("an id of ours");
            let (expected, uri) = self.owed.remove(&(client, id)).expect("it is waited for");
            assert_eq!(expected, channel, "{message}");
            if message.get("error").is_some() {
                assert_eq!(
                    message["error"]["data"]["outlive"]["kind"], "connection_lost",
                    "{message}"
                );
                self.doubtful.insert(uri);
            }
        } else if message["method"] == "notifications/resources/updated" {
            let uri = message["params"]["uri"].as_str().expect("a URI");
            let covers = |whole: &str| uri == whole || uri.starts_with(&format!("{whole}/"));
            let mut wishes = self.wants.iter().filter(|(_, wants)| **wants);
            let wanted = wishes.any(|((owner, whole), _)| *owner == client && covers(whole));
            assert!(wanted, "{client:?}: {message}");
        }
    }

    fn session_says(&mut self, output: SessionOutput) {
        match output {
            SessionOutput::ToHost(line) => self.session_says.push_back(Input::Said(line)),
            SessionOutput::ToHostOf(id, line) => {
                self.session_says.push_back(Input::SaidOf(id, line))
            }
            SessionOutput::Over(id) => self.session_says.push_back(Input::Over(id)),
            SessionOutput::Refuse(refusal) => self.session_says.push_back(Input::Refused(refusal)),
            SessionOutput::ToLink(generation, line) => {
                let frame: Value = serde_json::from_slice(line.bytes()).expect("JSON");
                if self
                    .server
                    .as_ref()
                    .is_some_and(|(alive, _)| *alive == generation)
                {
                    self.serve(&frame);
                }
            }
            SessionOutput::Connect(generation) => {
                self.server = Some((generation, Server::default()));
                self.to_session
                    .push_back(SessionInput::Link(generation, LinkInput::Up));
            }
            SessionOutput::Link(
                generation,
                LinkOrder::Kill | LinkOrder::Terminate | LinkOrder::CloseInput,
            ) => {
                self.exits(generation);
            }
            SessionOutput::Event(Event::Lost { generation, .. }) => {
                self.session_says.push_back(Input::Lost(generation));
            }
            SessionOutput::Initialized => self.session_says.push_back(Input::Initialized),
            SessionOutput::Link(..)
            | SessionOutput::Resend { .. }
            | SessionOutput::Event(_)
            | SessionOutput::Closed => {}
        }
    }

    fn exits(&mut self, generation: Generation) {
        if self
            .server
            .take_if(|(alive, _)| *alive == generation)
            .is_some()
        {
            let exit = Exit::Code(1);
            let input = LinkInput::Exited {
                exit,
                sent: u64::MAX,
            };
            self.to_session
                .push_back(SessionInput::Link(generation, input));
        }
    }

    /// The server does what it is told, and answers now or later.
    fn serve(&mut self, frame: &Value) {
        if self.tells {
            println!("        server: {frame}");
        }
        let Some((_, server)) = &mut self.server else {
            return;
        };
        let Some(id) = frame.get("id") else { return };
        let uri = frame["params"]["uri"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let (result, prompt) = match frame["method"].as_str().unwrap_or_default() {
            "initialize" => (
                json!({"protocolVersion": "2025-11-25", "capabilities": {"resources": {"subscribe": true}, "logging": {}}}),
                true,
            ),
            "resources/subscribe" => {
                server.subscribed.insert(uri);
                (json!({}), false)
            }
            "resources/unsubscribe" => {
                server.subscribed.remove(&uri);
                (json!({}), false)
            }
            "logging/setLevel" => {
                server.level = frame["params"]["level"].as_str().map(str::to_owned);
                (json!({}), false)
            }
            _ => (json!({}), true),
        };
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
        match prompt {
            true => self.say(&answer),
            false => server.late.push(answer),
        }
    }

    fn say(&mut self, message: &Value) {
        if let Some((generation, _)) = &self.server {
            let frame = LinkInput::Frame(Frame::read(message.to_string().into()));
            self.to_session
                .push_back(SessionInput::Link(*generation, frame));
        }
    }

    fn post(&mut self, client: Client, message: &Value) {
        let channel = Channel(self.fresh());
        if let Some(id) = message.get("id").and_then(Value::as_u64) {
            let uri = message["params"]["uri"].as_str().unwrap_or_default();
            self.owed.insert((client, id), (channel, uri.to_owned()));
        }
        let frame = Frame::read(message.to_string().into());
        self.feed(Input::Frame(client, channel, frame));
        self.run();
    }

    fn request(&mut self, client: Client, method: &str, params: Value) {
        let id = self.fresh();
        self.post(
            client,
            &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}),
        );
    }

    fn join(&mut self) {
        let client = Client(self.fresh());
        self.clients.insert(client);
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
        self.request(client, "initialize", params);
        self.post(
            client,
            &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        );
    }

    fn leave(&mut self, client: Client) {
        self.clients.remove(&client);
        self.wants.retain(|(owner, _), _| *owner != client);
        self.owed.retain(|(owner, _), _| *owner != client);
        self.feed(Input::Gone(client));
        self.run();
    }

    fn wish(&mut self, client: Client) {
        let uri = URIS[self.dice.roll(URIS.len())];
        let wants = self.dice.roll(2) == 0;
        self.wants.insert((client, uri.into()), wants);
        let method = if wants {
            "resources/subscribe"
        } else {
            "resources/unsubscribe"
        };
        self.request(client, method, json!({"uri": uri}));
    }

    fn answer_one(&mut self) {
        let Some((_, server)) = &mut self.server else {
            return;
        };
        if server.late.is_empty() {
            return;
        }
        let at = self.dice.roll(server.late.len());
        let answer = server.late.swap_remove(at);
        self.say(&answer);
        self.run();
    }

    fn die(&mut self) {
        if let Some((generation, _)) = &self.server {
            let generation = *generation;
            self.deaths += 1;
            self.exits(generation);
            self.run();
        }
    }

    /// Lets time pass to the next moment something is due.
    fn wait(&mut self) {
        if let Some(at) = self.session.deadline() {
            self.now = self.now.max(at);
            self.to_session.push_back(SessionInput::Tick);
            self.run();
        }
    }

    fn step(&mut self) {
        let clients: Vec<Client> = self.clients.iter().copied().collect();
        let some = self.dice.pick(&clients).copied();
        match (self.dice.roll(16), some) {
            (0, _) if clients.len() < 3 => self.join(),
            (1, Some(client)) if self.dice.roll(4) == 0 => self.leave(client),
            (2..=7, Some(client)) => self.wish(client),
            (8, _) if self.dice.roll(2) == 0 => self.die(),
            (9, _) => {
                let uri = URIS[self.dice.roll(URIS.len())];
                let subscribed = self
                    .server
                    .as_ref()
                    .is_some_and(|it| it.1.subscribed.contains(uri));
                if subscribed {
                    self.say(&json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}}));
                    self.run();
                }
            }
            (10, _) => self.wait(),
            _ => self.answer_one(),
        }
    }

    /// All that is to come comes.
    fn settle(&mut self) {
        for _ in 0..500 {
            let late = self.server.as_ref().is_some_and(|it| !it.1.late.is_empty());
            let ready = matches!(self.session.state(), State::Ready { .. });
            match late {
                true => self.answer_one(),
                false if ready && self.owed.is_empty() => return,
                false => self.wait(),
            }
        }
        panic!(
            "it does not settle: {:?}, {:?}",
            self.session.state(),
            self.owed
        );
    }

    fn server_has_what_clients_believe(&self) {
        let (_, server) = self.server.as_ref().expect("a server");
        for uri in URIS.map(str::to_owned) {
            let mut wishes = self.wants.iter().filter(|((_, about), _)| *about == uri);
            let wanted = wishes.any(|(_, wants)| *wants);
            let has = server.subscribed.contains(&uri);
            let sure = !self.doubtful.contains(&uri);
            assert!(!sure || wanted == has, "{uri}: wanted {wanted}, has {has}");
        }
    }
}

fn schedule(seed: u64) -> usize {
    let mut whole = Whole::new(seed);
    whole.join();
    for _ in 0..STEPS {
        whole.step();
    }
    if whole.clients.is_empty() {
        whole.join();
    }
    whole.settle();
    whole.server_has_what_clients_believe();
    // The breaker counts deaths in a minute.
    whole.now = whole.now + Duration::from_secs(600);
    whole.die();
    whole.settle();
    whole.server_has_what_clients_believe();
    whole.deaths
}

#[test]
fn invariant_09_the_next_server_has_what_clients_believe_in_whatever_order_answers_come() {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let count = number("OUTLIVE_SCHEDULES").map_or(2000, |all| (all / 10).max(1));
    let first = number("OUTLIVE_FIRST_SEED").unwrap_or(1);
    let seeds = match number("OUTLIVE_SEED") {
        Some(only) => only..only + 1,
        None => first..first + count,
    };
    let (mut deaths, count) = (0, seeds.end - seeds.start);
    for seed in seeds {
        let run = std::panic::catch_unwind(|| schedule(seed));
        deaths += run.unwrap_or_else(|_| panic!("seed {seed}")) as u64;
    }
    assert!(
        deaths > count || count < 100,
        "{deaths} deaths in {count} schedules"
    );
}
