//! A client, servers and a catalogue around one router, in virtual time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use outlive_core::gateway::TargetId;
use outlive_core::protocol::List;
use outlive_core::roster::{Entry, Filter, Naming, Offer, Prefix, Roster, ToolFilter, View};
use outlive_core::router::{Input, Output, Router, RouterLimits, RouterPolicy};
use outlive_core::server::Channel;
use outlive_core::{Frame, Time};
use serde_json::{Value, json};

use super::books::{Broken, Follows, Given, Leg, Owed, Seen, Server, broken};
use super::names;
use super::pins::Pin;
use super::schedule::Step;
use crate::random::Dice;

/// Why the router is called: an error of ours has to have a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The client sent something.
    Client,
    /// The token was withdrawn.
    Withdrawn,
    /// A server was lost.
    Lost(TargetId),
    /// The catalogue has changed.
    Roster,
    /// Another client wants the leg of this server.
    GiveWay(TargetId),
    Other,
}

/// Everything around a router.
pub struct World {
    pub router: Router,
    pub policy: RouterPolicy,
    pub now: Time,
    /// What has happened, if anybody wants to know.
    pub log: Option<Vec<String>>,
    pub seen: Seen,
    pub cause: Cause,
    /// The client has many channels.
    pub http: bool,
    /// What the client can be asked.
    pub declared: Value,
    /// The client does not begin with a handshake.
    pub shy: bool,
    pub introduced: bool,
    pub gone: bool,
    pub owed: Vec<Owed>,
    /// Channels that were opened; true if they are done.
    pub channels: BTreeMap<Channel, bool>,
    pub next: u64,
    /// Ids that are over, and may be used again: no server has seen them.
    pub spare: Vec<Value>,
    pub over: VecDeque<Value>,
    pub given: [Given; 4],
    /// Since when the client has another list than there is.
    pub outdated: [Option<Time>; 4],
    pub cursors: [Option<String>; 4],
    pub level: Option<String>,
    pub follows: Follows,
    /// Of these nobody can say any more whether they are followed: a request about them was cancelled.
    pub murky: BTreeSet<(TargetId, String)>,
    /// Tokens that were used more than once.
    pub worn: Vec<Value>,
    /// Tasks, the servers that run them, and the tokens of their requests.
    pub tasks: Vec<(String, TargetId, Option<Value>)>,
    pub servers: Vec<Server>,
    /// Their names. No two that are in the file at a time have the same.
    pub names: Vec<&'static str>,
    /// What is known of these was told by others that had their names.
    pub doubtful: BTreeSet<TargetId>,
    /// The catalogue, and what it has not told.
    pub entries: Vec<Entry>,
    pub all: Vec<Entry>,
    pub naming: Naming,
    pub view: View,
    pub roster: Arc<Roster>,
    pub learned: Vec<(TargetId, Offer)>,
    /// What was accepted, for each server.
    pub pins: Vec<Pin>,
    /// Questions that the client is to be told nobody waits for any more.
    pub withdrawals: Vec<Value>,
    /// The catalogue tells at once.
    pub prompt: bool,
    /// What a server has just said must reach the client.
    pub expected: Option<&'static str>,
    /// Questions and answers that are under way, the number of the next secret.
    pub secrets: u64,
    /// Who speaks, while a message of a server is handled.
    pub speaker: Option<TargetId>,
    /// Messages of servers that lie say nothing that is true.
    pub lying: bool,
}

impl World {
    pub fn new(dice: &mut Dice) -> World {
        let count = 1 + dice.below(5) as usize;
        let mut servers = vec![Server::default(); count];
        let mut all = Vec::new();
        for (at, server) in servers.iter_mut().enumerate() {
            server.lists = List::ALL.map(|list| draw_list(dice, list));
            server.lacks = dice.roll() as u8;
            server.paged = dice.below(4) == 0;
            let known = dice.below(2) == 0;
            let offer = names::offer(at, server.version, &server.lists, server.lacks);
            all.push(Entry {
                target: TargetId(at),
                name: names::SERVERS[at].into(),
                prefix: None,
                filter: ToolFilter::default(),
                eager: dice.below(3) == 0,
                offer: known.then(|| Arc::new(offer)),
                pinned: None,
            });
            // It may be another one by now.
            if dice.below(3) == 0 {
                server.lists[0] = draw_list(dice, List::Tools);
            }
        }
        let few = dice.below(3) == 0;
        let limits = match few {
            false => RouterLimits::default(),
            true => RouterLimits {
                calls: 4,
                queued_bytes: 300,
                asks: 2,
                subscriptions: 2,
                tasks: 2,
                page_items: 2,
                page_bytes: 200,
            },
        };
        let limits = match dice.below(2) {
            0 => limits,
            _ => RouterLimits {
                page_items: 1,
                ..limits
            },
        };
        let policy = RouterPolicy {
            idle_stop: (dice.below(3) == 0).then_some(Duration::from_secs(60)),
            limits,
            ..RouterPolicy::default()
        };
        let prefix = [Prefix::Always, Prefix::Conflict, Prefix::Never][dice.below(3) as usize];
        let naming = Naming {
            prefix,
            ..Naming::default()
        };
        let view = View::default();
        let mut pins: Vec<Pin> = (0..count).map(|_| Pin::draw(dice)).collect();
        let mut entries = all.clone();
        for (entry, pin) in entries.iter_mut().zip(&mut pins) {
            pin.apply(entry, false);
        }
        let roster = Arc::new(Roster::new(&entries, &naming, &view));
        let declared = match dice.below(3) {
            0 => json!({}),
            1 => json!({"roots": {}}),
            _ => json!({"roots": {}, "sampling": {}, "elicitation": {}}),
        };
        World {
            router: Router::new(policy.clone(), roster.clone()),
            policy,
            now: Time::ZERO,
            log: None,
            seen: Seen::default(),
            cause: Cause::Other,
            http: dice.below(2) == 0,
            declared,
            shy: dice.below(12) == 0,
            introduced: false,
            gone: false,
            owed: Vec::new(),
            channels: BTreeMap::new(),
            next: 0,
            spare: Vec::new(),
            over: VecDeque::new(),
            given: [Given::Nothing; 4],
            outdated: [None; 4],
            cursors: Default::default(),
            level: None,
            follows: BTreeMap::new(),
            murky: BTreeSet::new(),
            worn: Vec::new(),
            tasks: Vec::new(),
            names: names::SERVERS[..count].to_vec(),
            doubtful: BTreeSet::new(),
            servers,
            entries,
            all,
            naming,
            view,
            roster,
            learned: Vec::new(),
            pins,
            withdrawals: Vec::new(),
            prompt: dice.below(2) == 0,
            expected: None,
            secrets: 0,
            speaker: None,
            lying: false,
        }
    }

    pub fn step(&mut self, step: Step) -> Result<(), Broken> {
        self.note(|world| format!("{:?} {step:?}", world.now.since_start()));
        let some = |n: u8| n as usize % self.servers.len();
        match step {
            Step::Request(kind, about, id, token) => self.request(kind, about, id, token),
            Step::List(list, more) => self.list(list, more),
            Step::Batch(a, b) => self.batch(a, b),
            Step::Cancel(n, live) => self.cancel(n, live),
            Step::Reply(n, how) => self.reply(n, how),
            Step::ReplyProgress(n) => self.reply_progress(n),
            Step::Junk(n) => self.junk(n),
            Step::Leave(withdrawn) => self.leave(withdrawn),
            Step::Serve(n, m) => self.serve(some(n), m as usize),
            Step::ServeAll(n) => self.serve_all(some(n)),
            Step::Fail(n, m) => self.fail(some(n), m as usize),
            Step::Lie(n, how, m) => self.lie(some(n), how, m as usize),
            Step::Ask(n, what, id) => self.ask(some(n), what, id),
            Step::Unask(n, m) => self.unask(some(n), m as usize),
            Step::Progress(n, m) => self.progress(some(n), m as usize),
            Step::Say(n, what) => self.say(some(n), what),
            Step::Change(n, what, tell) => self.change(some(n), what, tell),
            Step::End(n) => self.end_leg(some(n)),
            Step::GiveWay(n) => self.give_way(some(n)),
            Step::Refuse(n) => self.refuse(some(n)),
            Step::Publish => self.publish(),
            Step::Catalogue(n, what) => self.catalogue(some(n), what),
            Step::Accept(n, what) => self.accept(some(n), what),
            Step::Reload(n, what) => self.reload(some(n), what),
            Step::Wait(ms, kept) => self.wait(Duration::from_millis(ms.into()), kept),
        }
    }

    fn note(&mut self, what: impl FnOnce(&World) -> String) {
        if self.log.is_some() {
            let line = what(self);
            self.log.iter_mut().for_each(|log| log.push(line.clone()));
        }
    }

    /// Tells the router something, and looks at what it does.
    pub fn feed(&mut self, cause: Cause, input: Input) -> Result<(), Broken> {
        self.note(|world| match &input {
            Input::Client(channel, frame) => format!("  client on {}: {}", channel.0, text(frame)),
            Input::Server(target, channel, message) => {
                let lie = if world.lying { " lies" } else { "" };
                let bytes = String::from_utf8_lossy(message.bytes());
                format!("  server {}{lie} on {}: {bytes}", target.0, channel.0)
            }
            Input::Roster(_) => "  roster".into(),
            other => format!("  {other:?}"),
        });
        self.cause = cause;
        self.router.handle(self.now, input);
        self.drain()?;
        self.cause = Cause::Other;
        if let Some(what) = self.expected.take() {
            return broken(4, format!("the client was not told: {what}"));
        }
        self.check()?;
        if self.prompt && !self.learned.is_empty() {
            self.publish()?;
        }
        Ok(())
    }

    fn drain(&mut self) -> Result<(), Broken> {
        while let Some(output) = self.router.poll() {
            self.note(|_| match &output {
                Output::Hear(target, channel, message) => {
                    let bytes = String::from_utf8_lossy(message.bytes());
                    format!("    -> server {} on {}: {bytes}", target.0, channel.0)
                }
                Output::Send(channel, message) | Output::Offer(channel, message) => {
                    let bytes = String::from_utf8_lossy(message.bytes());
                    format!("    -> client on {}: {bytes}", channel.0)
                }
                Output::Learned(target, _) => format!("    learned of {}", target.0),
                other => format!("    {other:?}"),
            });
            self.on_output(output)?;
        }
        Ok(())
    }

    /// The catalogue tells what it has learnt.
    pub fn publish(&mut self) -> Result<(), Broken> {
        for (target, offer) in std::mem::take(&mut self.learned) {
            self.doubtful.remove(&target);
            for entries in [&mut self.entries, &mut self.all] {
                if let Some(entry) = entries.iter_mut().find(|entry| entry.target == target) {
                    entry.offer = Some(Arc::new(offer.clone()));
                }
            }
        }
        self.tell_roster()
    }

    pub fn tell_roster(&mut self) -> Result<(), Broken> {
        let before = self.roster.clone();
        for entry in &mut self.entries {
            let is_doubtful = self.doubtful.contains(&entry.target);
            self.pins[entry.target.0].apply(entry, is_doubtful);
        }
        let roster = Roster::new(&self.entries, &self.naming, &self.view);
        self.roster = Arc::new(roster.doubting(|target| self.doubtful.contains(&target)));
        for at in 0..self.owed.len() {
            let may = self.meaning(self.owed[at].method, &self.owed[at].params);
            self.owed[at].may.extend(may);
        }
        for list in List::ALL {
            self.note_outdated(list);
        }
        self.hand_over(&before);
        let visible = |target: TargetId| self.roster.contains(target);
        self.follows.retain(|(target, _), _| visible(*target));
        self.tasks.retain(|(_, target, _)| visible(*target));
        // A server that comes back is a new one.
        for (at, server) in self.servers.iter_mut().enumerate() {
            server.failed &= self.roster.contains(TargetId(at));
        }
        self.feed(Cause::Roster, Input::Roster(self.roster.clone()))?;
        self.check_newcomers(&before)
    }

    /// What the client follows of a server that was changed, it follows of the one that has its name now.
    fn hand_over(&mut self, before: &Roster) {
        for (old, name, _) in before.servers() {
            let mut now = self.roster.servers();
            let Some((new, ..)) = now.find(|(new, other, _)| *other == name && *new != old) else {
                continue;
            };
            let moved: Vec<_> = self.follows.extract_if(.., |it, _| it.0 == old).collect();
            self.seen.handed_over += moved.len();
            let moved = moved.into_iter().map(|((_, uri), how)| ((new, uri), how));
            self.follows.extend(moved);
            let murky: Vec<_> = self.murky.extract_if(.., |it| it.0 == old).collect();
            self.murky
                .extend(murky.into_iter().map(|(_, uri)| (new, uri)));
        }
    }

    /// What a server offers that has come is asked, if the client has a list that may lack it.
    fn check_newcomers(&self, before: &Roster) -> Result<(), Broken> {
        let listed = self.given.iter().any(|given| *given != Given::Nothing);
        if self.gone || !self.introduced || !listed {
            return Ok(());
        }
        let unread = |target: TargetId, known: bool| !known || self.doubtful.contains(&target);
        let mut added = self.roster.servers().filter(|it| !before.contains(it.0));
        let forgotten = |(target, _, known): &(TargetId, &str, bool)| {
            unread(*target, *known) && self.servers[target.0].leg == Leg::None
        };
        match added.find(forgotten) {
            Some((target, ..)) => broken(17, format!("nobody asks {target:?} what it offers")),
            None => Ok(()),
        }
    }

    /// The file is read again, and says something else about a server, or names another.
    fn reload(&mut self, server: usize, what: u8) -> Result<(), Broken> {
        let mut dice = Dice::new(u64::from(what) << 8 | server as u64);
        let at = self.entries.iter().position(|it| it.target.0 == server);
        let fresh = self.servers.len();
        let mut it = Server {
            lists: self.servers[server].lists.clone(),
            lacks: self.servers[server].lacks,
            version: self.servers[server].version,
            ..Server::default()
        };
        let known = names::offer(fresh, it.version, &it.lists, it.lacks);
        if dice.below(2) == 0 {
            it.lists[0] = draw_list(&mut dice, List::Tools);
        }
        let (name, offer) = match (at, what % 4) {
            (Some(at), 0..=2) => {
                self.seen.changed += 1;
                let guess = self.entries[at].offer.is_some() && !what.is_multiple_of(4);
                (self.names[server], guess.then(|| Arc::new(known)))
            }
            _ => {
                let taken = |name: &&&str| self.all.iter().any(|it| *it.name == ***name);
                let Some(name) = names::SERVERS.iter().find(|it| !taken(it)) else {
                    return Ok(());
                };
                self.seen.added += 1;
                (*name, None)
            }
        };
        if offer.is_some() && what % 4 == 1 {
            self.doubtful.insert(TargetId(fresh));
        }
        let entry = Entry {
            target: TargetId(fresh),
            name: name.into(),
            prefix: None,
            filter: ToolFilter::default(),
            eager: dice.below(3) == 0,
            offer,
            pinned: None,
        };
        // Of a command that is another nothing was accepted; one that is the same may have been accepted, or not.
        let pin = match name == self.names[server] {
            true => self.pins[server].succeeded(what % 4 == 2),
            false => Pin::draw(&mut dice),
        };
        self.pins.push(pin);
        self.servers.push(it);
        self.names.push(name);
        for entries in [&mut self.entries, &mut self.all] {
            match entries.iter().position(|it| *it.name == *name) {
                Some(at) => entries[at] = entry.clone(),
                None => entries.push(entry.clone()),
            }
        }
        self.learned
            .retain(|(target, _)| *target != TargetId(server));
        self.tell_roster()
    }

    pub fn note_outdated(&mut self, list: List) {
        let at = list as usize;
        let outdated = match self.given[at] {
            Given::Nothing => false,
            Given::Whole(digest) => digest != self.roster.digest(list),
            Given::Mixed => true,
        };
        match outdated {
            true => drop(self.outdated[at].get_or_insert(self.now)),
            false => self.outdated[at] = None,
        }
    }

    /// Servers come and go, views change, somebody else learns something.
    fn catalogue(&mut self, server: usize, what: u8) -> Result<(), Broken> {
        let target = TargetId(server);
        let at = self.entries.iter().position(|entry| entry.target == target);
        match (what % 6, at) {
            (0, Some(at)) if self.entries.len() > 1 => {
                self.entries.remove(at);
                self.seen.removed += 1;
            }
            (0 | 1, None) => {
                let mut present: BTreeSet<TargetId> = BTreeSet::from([target]);
                present.extend(self.entries.iter().map(|entry| entry.target));
                let is_present = |entry: &&Entry| present.contains(&entry.target);
                // One that was changed meanwhile comes as it is now.
                self.entries = self.all.iter().filter(is_present).cloned().collect();
            }
            (2, _) => {
                self.view.servers = match self.view.servers.deny.is_empty() {
                    true => Filter::new([], [self.names[server]]),
                    false => Filter::default(),
                };
            }
            (3, _) => {
                self.view.tools = match self.view.tools.deny.is_empty() {
                    true => Filter::new([], [names::HIDDEN]),
                    false => Filter::default(),
                };
            }
            (4, Some(at)) => {
                let mut dice = Dice::new(u64::from(what) << 8 | server as u64);
                let mut lists = self.servers[server].lists.clone();
                lists[what as usize % 4] = draw_list(&mut dice, List::ALL[what as usize % 4]);
                let offer = names::offer(
                    server,
                    self.servers[server].version,
                    &lists,
                    self.servers[server].lacks,
                );
                self.entries[at].offer = Some(Arc::new(offer));
            }
            (5, Some(at)) if what > 200 => self.entries[at].offer = None,
            _ => {}
        }
        self.tell_roster()
    }

    pub fn wait(&mut self, time: Duration, kept: bool) -> Result<(), Broken> {
        let end = self.now + time;
        while let Some(at) = self.router.deadline().filter(|at| kept && *at <= end) {
            self.now = self.now.max(at);
            self.feed(Cause::Other, Input::Tick)?;
            if self.router.deadline() == Some(at) {
                return broken(9, "a deadline that stays");
            }
        }
        self.now = end;
        self.feed(Cause::Other, Input::Tick)
    }

    /// Servers answer everything from now on, and the catalogue tells what it learns: everything settles.
    pub fn end(&mut self) -> Result<(), Broken> {
        self.note(|_| "the end".into());
        self.prompt = true;
        self.settle()?;
        if !self.gone {
            self.wait(Duration::from_secs(10), true)?;
            self.settle()?;
            self.check_settled()?;
            self.leave(false)?;
        }
        self.check_gone()
    }

    fn settle(&mut self) -> Result<(), Broken> {
        self.publish()?;
        for _ in 0..1000 {
            let mut busy = false;
            for server in 0..self.servers.len() {
                busy |= !self.servers[server].pending.is_empty();
                self.serve_all(server)?;
            }
            if !busy {
                return Ok(());
            }
        }
        broken(12, "servers are asked for ever")
    }
}

fn text(frame: &Frame) -> String {
    match frame {
        Frame::Message(message) => String::from_utf8_lossy(message.bytes()).into_owned(),
        other => format!("{other:?}"),
    }
}

/// Few, many or no entries; some of them twice.
pub fn draw_list(dice: &mut Dice, list: List) -> Vec<usize> {
    let all = names::all(list).len() as u64;
    let count = [0, 1, 2, 4][dice.below(4) as usize];
    (0..count).map(|_| dice.below(all) as usize).collect()
}
