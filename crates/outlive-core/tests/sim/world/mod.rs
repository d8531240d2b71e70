//! A world around one session: a host, the servers it goes through, and a clock. The world keeps its
//! own books, independent of the session's, and checks the ten invariants after every step.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use outlive_core::cause::Exit;
use outlive_core::policy::{Cancel, Policy, Retry};
use outlive_core::{Event, Generation, Input, LinkOrder, Output, Session, State, Time};

use crate::schedule::{Dice, Method};
use fragile::Fragile;
use observed::Observed;

mod absent;
mod books;
mod endings;
mod fragile;
mod leaving;
mod lists;
mod notes;
mod observed;
mod reading;
mod refusals;
mod steps;
mod takeover;

/// The invariant that broke, and how.
pub type Broken = String;

/// A request the host has made.
#[derive(Clone, Debug)]
struct Asked {
    id: String,
    method: Method,
    /// Its place among all that the host has sent.
    seq: u64,
    open: bool,
    cancelled: bool,
    /// The links it was sent on, and as which frame.
    sends: Vec<(Generation, u64)>,
    /// Deaths of links it had been written to and not answered by.
    unknown: u32,
    /// The host was told that it was not sent.
    denied: bool,
    /// How often it was sent.
    attempts: u32,
    /// The highest progress the host was told of, and at which attempt.
    progress: u64,
    told_at: u32,
    /// The page a list was asked from: none for the first.
    cursor: Option<usize>,
    /// It was left unanswered by itself, so it may follow what came later.
    again: bool,
    acknowledged: u32,
    /// A server has refused it.
    refused: bool,
    /// Every session refuses it.
    refused_everywhere: bool,
    /// How many sessions have refused it.
    refused_by: u32,
}

/// What a server was sent and has not answered.
#[derive(Debug, Clone)]
struct Todo {
    id: String,
    method: String,
    asked: Option<usize>,
    frame: u64,
    /// Of a list: which page.
    page: usize,
}

/// A server process and the link to it.
#[derive(Clone, Debug)]
struct Server {
    generation: Generation,
    up: bool,
    /// The session has been told that it is dead.
    dead: bool,
    /// Its process runs.
    runs: bool,
    killed: bool,
    /// It is the last of its session and is being stopped.
    last: bool,
    /// It takes no input any more, but may still speak.
    deaf: bool,
    /// What had not been written to it when it was found dead will not be.
    cut_off: bool,
    /// How the process that was started has ended, if the session was told so before the rest of it had.
    ended: Option<Exit>,
    /// The process that was started has ended, and another one holds its input.
    orphaned: bool,
    /// The driver need not wait for that one.
    released: bool,
    frames: u64,
    /// No frame up to here can have been lost: it answered one that came after.
    taken: u64,
    todo: Vec<Todo>,
    done: Vec<Todo>,
    /// Its requests to the host that are not answered, by its own ids.
    asks: BTreeSet<String>,
    next_ask: u64,
    /// It was asked for its tools by the session itself, and has told all of them.
    listed: bool,
    /// It was asked for its tools by the session itself, and that was lost on the way.
    unlisted: bool,
    /// It has told all of its tools, to whomever.
    told: bool,
    /// How many pages of its tools the host has read from it, from the first on.
    pages: usize,
    /// How far it is with each request.
    progress: BTreeMap<usize, u64>,
    greeted: bool,
    initialized: bool,
    level: bool,
    subscribed: BTreeSet<String>,
    cancelled: BTreeSet<String>,
    /// The host had its handshake before this server was born.
    successor: bool,
    /// The place of the last message of the host that it was sent.
    last_seq: Option<u64>,
    /// It has forgotten the session: what was sent from this frame on is refused.
    forgot: Option<u64>,
    /// It is of the kind that dies of cancellations.
    fragile: Option<Fragile>,
}

#[derive(Clone)]
pub struct World {
    session: Session,
    now: Time,
    pub modern: bool,
    /// What an observer was told.
    observed: Observed,
    policy: Policy,
    asked: Vec<Asked>,
    /// Requests that are open, by id.
    open: HashMap<String, usize>,
    next_seq: u64,
    /// The sequence numbers of notifications, by their marker.
    server: Option<Server>,
    old: Vec<Server>,
    /// The server's requests as the host knows them: id there → link and its own id.
    shown: Vec<(String, Generation, String)>,
    state: State,
    closed: bool,
    stopping: bool,
    host_closed: bool,
    /// When the host left.
    left: Time,
    stop_asked: bool,
    /// The server that was to be replaced last, and since when.
    restarting: Option<(Generation, Time)>,
    /// What the session has said about sending something again, and to which link.
    resend: Option<(Generation, bool)>,
    /// What the host believes to have.
    greeted: bool,
    initialized: bool,
    level: bool,
    /// The server whose predecessor it was told to be gone last (FM-74), and those that were asked for something that
    /// may have changed them.
    replaced: Option<Generation>,
    worked: BTreeSet<Generation>,
    subscribed: BTreeSet<String>,
    /// Which of its requests about a resource, or about the level, is the newest that was answered.
    wished: BTreeMap<String, usize>,
    /// Decides which tools each server has; without it they have the same two, every second one without a hint.
    lists: Option<u64>,
    /// The tools as the host has last seen them, those it is reading, and whether it was told of a change.
    seen_tools: Option<Vec<&'static str>>,
    reading: Vec<&'static str>,
    /// The page the host would ask for next.
    cursor: Option<usize>,
    told_changed: bool,
    updated: BTreeMap<String, u64>,
    /// When the answer to a duplicate is owed: its id.
    duplicate: Option<String>,
    blocked: bool,
    /// Some server has forgotten its session.
    forgotten: bool,
    /// The servers of this world die of cancellations.
    pub fragile: bool,
    /// One has, and the session could know.
    died_of_cancel: bool,
    /// A server has left a ping unanswered and answered another probe: there are no more pings.
    pings_ignored: bool,
    /// Notifications of the host that a server in service has not been sent: their places, and its generation.
    notes: Vec<(u64, Generation)>,
    pub log: Vec<String>,
    pub verbose: bool,
}

const TOO_LONG: u64 = 1 << 30;

impl World {
    pub fn new(dice: &mut Dice) -> World {
        let modern = dice.below(3) == 0;
        let mut policy = Policy::default();
        policy.retry =
            [Retry::Safe, Retry::Safe, Retry::Never, Retry::Always][dice.below(4) as usize];
        policy.cancel =
            [Cancel::Auto, Cancel::Auto, Cancel::Forward, Cancel::Absorb][dice.below(4) as usize];
        policy.request_timeout = (dice.below(3) == 0).then(|| Duration::from_secs(3));
        policy.request_ceiling = (dice.below(4) == 0).then(|| Duration::from_secs(9));
        policy.limits.held = 5;
        policy.limits.tombstones = 4;
        policy.limits.asks = 3;
        policy.limits.in_flight = 8;
        policy.limits.subscriptions = 2;
        policy.limits.held_bytes = 1200;
        policy.limits.message = 400;
        policy.breaker.failures = 3 + dice.below(6) as u32;
        let seed = dice.roll();
        World {
            lists: Some(seed),
            ..World::with(policy, modern, seed)
        }
    }

    /// A legacy world whose first two servers have these lists.
    pub fn with_lists(policy: Policy, lists: [usize; 2]) -> World {
        World {
            lists: Some(lists::seed_of(lists)),
            ..World::with(policy, false, 7)
        }
    }

    pub fn with(policy: Policy, modern: bool, seed: u64) -> World {
        let mut session = Session::new(policy.clone(), seed);
        World {
            observed: Observed::of(&mut session),
            session,
            now: Time::ZERO,
            modern,
            policy,
            asked: Vec::new(),
            open: HashMap::new(),
            next_seq: 0,
            server: None,
            old: Vec::new(),
            shown: Vec::new(),
            state: State::Connecting { attempt: 1 },
            closed: false,
            stopping: false,
            host_closed: false,
            left: Time::ZERO,
            stop_asked: false,
            restarting: None,
            resend: None,
            greeted: false,
            initialized: false,
            level: false,
            subscribed: BTreeSet::new(),
            lists: None,
            wished: BTreeMap::new(),
            replaced: None,
            worked: BTreeSet::new(),
            seen_tools: None,
            reading: Vec::new(),
            cursor: None,
            told_changed: false,
            updated: BTreeMap::new(),
            duplicate: None,
            blocked: false,
            forgotten: false,
            fragile: false,
            died_of_cancel: false,
            pings_ignored: false,
            notes: Vec::new(),
            log: Vec::new(),
            verbose: false,
        }
    }

    pub fn start(&mut self) -> Result<(), Broken> {
        self.feed(Input::Start)
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        if self.verbose {
            let line = format!("{:>9.3}  {}", self.now.since_start().as_secs_f64(), line());
            self.log.push(line);
        }
    }

    /// The server whose words still reach the session: also one that no longer listens.
    fn speaking(&mut self) -> Option<&mut Server> {
        self.server
            .as_mut()
            .filter(|s| s.up && (!s.dead || s.deaf && s.runs))
    }

    fn live(&mut self) -> Option<&mut Server> {
        self.server.as_mut().filter(|s| s.up && !s.dead)
    }

    fn seq(&mut self) -> u64 {
        self.next_seq += 1;
        self.next_seq
    }

    /// Hands an input to the session, carries out what it says, and checks everything.
    fn feed(&mut self, input: Input) -> Result<(), Broken> {
        self.session.handle(self.now, input);
        while let Some(output) = self.session.poll() {
            if self.closed {
                return Err(format!("10: {output:?} after Closed"));
            }
            self.carry_out(output)?;
        }
        self.check()
    }

    fn carry_out(&mut self, output: Output) -> Result<(), Broken> {
        match output {
            Output::ToHost(message) | Output::ToHostOf(_, message) => self.host_gets(message),
            Output::Over(_) => Ok(()),
            Output::Refuse(refusal) => self.host_gets(refusal.to_response()),
            Output::ToLink(generation, message) => self.server_gets(generation, message),
            Output::Connect(generation) => self.connect(generation),
            Output::Link(generation, order) => self.order(generation, order),
            Output::Event(Event::State(state)) => {
                self.note(|| format!("state  = {}", state.name()));
                if let State::Ready { generation } = &state {
                    self.became_ready(*generation)?;
                }
                self.check_failed(&state)?;
                self.state = state;
                Ok(())
            }
            Output::Initialized => Ok(()),
            Output::Resend {
                generation,
                granted,
                ..
            } => {
                self.resend = Some((generation, granted));
                Ok(())
            }
            Output::Event(event) => {
                self.note(|| format!("event  = {event}"));
                if matches!(event, Event::Dropped { .. }) {
                    self.notes.clear();
                }
                if let Event::Lost {
                    generation, cause, ..
                } = &event
                {
                    self.check_cause(*generation, cause)?;
                }
                Ok(())
            }
            Output::Closed => {
                self.closed = true;
                let left = self
                    .server
                    .iter()
                    .chain(&self.old)
                    .find(|s| s.runs && !s.killed);
                match left {
                    Some(s) => Err(format!(
                        "10: the process of {} was left behind",
                        s.generation
                    )),
                    None => self.nobody_is_waited_for(),
                }
            }
        }
    }

    /// No driver waits for ever for somebody who may hold the input of a dead server.
    fn nobody_is_waited_for(&self) -> Result<(), Broken> {
        let held = |s: &&Server| s.orphaned && s.runs && !s.released;
        match self.old.iter().find(held) {
            Some(s) => Err(format!(
                "7: nobody lets go of the input of {}",
                s.generation
            )),
            None => Ok(()),
        }
    }

    fn connect(&mut self, generation: Generation) -> Result<(), Broken> {
        self.note(|| format!("connect {generation}"));
        if let Some(last) = self.server.take() {
            if generation <= last.generation {
                return Err(format!(
                    "6: generation {generation} after {}",
                    last.generation
                ));
            }
            if !last.dead && last.up {
                return Err("6: a second link beside a live one".into());
            }
            self.old.push(last);
        }
        self.nobody_is_waited_for()?;
        self.server = Some(Server {
            generation,
            up: false,
            dead: false,
            runs: false,
            killed: false,
            last: false,
            deaf: false,
            cut_off: false,
            ended: None,
            orphaned: false,
            released: false,
            frames: 0,
            taken: 0,
            todo: Vec::new(),
            done: Vec::new(),
            asks: BTreeSet::new(),
            next_ask: 0,
            listed: false,
            unlisted: false,
            told: false,
            pages: 0,
            progress: BTreeMap::new(),
            greeted: false,
            initialized: false,
            level: false,
            subscribed: BTreeSet::new(),
            cancelled: BTreeSet::new(),
            successor: self.greeted,
            last_seq: None,
            forgot: None,
            fragile: self.fragile.then(Fragile::default),
        });
        Ok(())
    }

    fn order(&mut self, generation: Generation, order: LinkOrder) -> Result<(), Broken> {
        self.note(|| format!("order {order:?} for {generation}"));
        let mut all = self.server.iter_mut().chain(&mut self.old);
        let server = all.find(|s| s.generation == generation);
        match order {
            LinkOrder::Inspect | LinkOrder::DeclineLogin => return Ok(()),
            LinkOrder::StopWriting | LinkOrder::Release => {
                if let Some(server) = server {
                    server.cut_off |= order == LinkOrder::StopWriting;
                    server.released |= order == LinkOrder::Release;
                }
                return Ok(());
            }
            LinkOrder::CloseInput | LinkOrder::Terminate | LinkOrder::Kill => {}
        }
        // A link that is told to end is no longer in service, whoever began it.
        if let Some(server) = self.server.take_if(|s| s.generation == generation) {
            let mut server = server;
            if !server.dead {
                // It had taken all there was when it was told to end.
                server.taken = server.frames;
                for todo in server.todo.clone() {
                    if let Some(index) = todo.asked {
                        self.asked[index].unknown += 1;
                    }
                }
            }
            server.dead = true;
            server.last = self.is_closing();
            self.owe_only_what_is_running(&server);
            self.old.push(server);
        }
        for server in self.old.iter_mut().filter(|s| s.generation == generation) {
            server.killed |= order == LinkOrder::Kill;
            server.cut_off |= order == LinkOrder::Kill;
        }
        Ok(())
    }

    fn became_ready(&mut self, generation: Generation) -> Result<(), Broken> {
        let live = self
            .server
            .as_ref()
            .is_some_and(|s| s.generation == generation && s.up && !s.dead);
        if !live {
            return Err(format!("5: Ready for {generation}, which is not alive"));
        }
        if self.server.as_ref().is_some_and(|s| s.successor) {
            for uri in self.subscribed.clone() {
                self.updated.insert(uri, generation.number());
            }
        }
        Ok(())
    }
}
