//! A route, its clients and their readers around one replay buffer, with books of their own.
//!
//! The books hold all that was ever sent, who reads what, and what each client was told. From them follows what each
//! reader has to read next, to the event; only which old events are forgotten is the buffer's choice, within reason.

mod pacing;

use std::collections::BTreeMap;
use std::time::Duration;

use outlive_core::Time;
use outlive_core::replay_buffer::{
    Beginning, Delivery, Lease, Next, NotKept, Payload, ReplayBuffer, ReplayLimits,
};
use outlive_core::server::Channel;

use super::schedule::Step;
use pacing::Sender;

/// An invariant that does not hold.
#[derive(Debug)]
pub struct Broken {
    pub invariant: u8,
    pub how: String,
}

type Checked<T = ()> = Result<T, Broken>;

fn broken<T>(invariant: u8, how: impl Into<String>) -> Checked<T> {
    let how = how.into();
    Err(Broken { invariant, how })
}

/// A message nobody else has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    pub name: u64,
    pub size: usize,
}

impl Payload for Text {
    fn size(&self) -> usize {
        self.size
    }
}

pub const LIMITS: ReplayLimits = ReplayLimits {
    backlog: 10,
    backlog_bytes: 100,
    kept: 8,
    kept_bytes: 80,
    total_bytes: 200,
    stall: Duration::from_secs(4),
};

/// What schedules came across, and how often.
pub type Seen = BTreeMap<&'static str, usize>;

/// What they have to come across.
pub const EVERYTHING: [&str; 22] = [
    "answered at once",
    "began with silence",
    "began as a stream",
    "read",
    "read again",
    "waited and woken",
    "resumed",
    "refused to resume",
    "skipped what was forgotten",
    "fenced",
    "cut off for being behind",
    "lost for being behind",
    "cut off for the bound of its session",
    "held back",
    "went on",
    "stalled",
    "abandoned",
    "hung up",
    "ended complete",
    "ended short",
    "withdrawn unread",
    "sealed",
];

/// What the books know of a channel.
#[derive(Debug, Default)]
struct Books {
    /// All that was taken, and at which step. The number of the first is 1.
    sent: Vec<(Text, u64)>,
    /// Done, or cut short.
    ended: Option<bool>,
    /// The newest reader, while it holds the channel.
    reader: Option<usize>,
    /// Where the last reader ended.
    position: u64,
    /// The last event that the client was told the id of, if any; 0 is before the first.
    told: Option<u64>,
    /// Up to here everything was withdrawn.
    withdrawn: u64,
    hangs_up: bool,
    overrun: bool,
    /// How often the route was told that nobody reads it.
    lost: usize,
    /// Nobody reads it, and nobody can come back to it.
    gone: bool,
    /// When the sender first found that its reader had not taken what there is.
    idle_since: Option<Time>,
    /// The sender does not wait for its reader.
    stalled: bool,
}

impl Books {
    fn last(&self) -> u64 {
        self.sent.len() as u64
    }

    /// What the reader has to read next.
    fn due(&self, position: u64) -> Option<(u64, Text)> {
        let number = position.max(self.withdrawn) + 1;
        let (text, _) = self.sent.get(number as usize - 1)?;
        Some((number, *text))
    }

    fn unread(&self) -> impl Iterator<Item = &Text> {
        let from = self.position.max(self.withdrawn) as usize;
        self.sent.iter().skip(from).map(|(text, _)| text)
    }

    fn is_behind(&self) -> bool {
        self.unread().count() > LIMITS.backlog
            || self.unread().map(|it| it.size).sum::<usize>() > LIMITS.backlog_bytes
    }
}

/// A reader that has not gone.
#[derive(Debug)]
struct Reader {
    lease: Lease,
    /// It has been told how its channel begins, or reads it from elsewhere than the beginning.
    streams: bool,
    waits: bool,
}

pub struct World {
    delivery: Delivery,
    buffer: ReplayBuffer<Text>,
    channels: BTreeMap<Channel, Books>,
    readers: BTreeMap<usize, Reader>,
    names: u64,
    /// The last message that was taken.
    newest: Option<u64>,
    now: u64,
    /// When the bounds were last exceeded, so that something may have been forgotten.
    over: Option<u64>,
    was_listened_to: bool,
    sealed: bool,
    sender: Sender,
    pub log: Vec<String>,
    pub seen: Seen,
}

impl World {
    pub fn new(delivery: Delivery, paced: bool) -> World {
        let mut buffer = ReplayBuffer::new(delivery, LIMITS);
        if paced {
            buffer.pace();
        }
        let mut world = World {
            delivery,
            buffer,
            channels: BTreeMap::new(),
            readers: BTreeMap::new(),
            names: 0,
            newest: None,
            now: 0,
            over: None,
            was_listened_to: false,
            sealed: false,
            sender: Sender {
                paced,
                ..Sender::default()
            },
            log: Vec::new(),
            seen: Seen::new(),
        };
        if delivery != Delivery::Once {
            let told = world.is_resumable().then_some(0);
            let main = Books {
                told,
                ..Books::default()
            };
            world.channels.insert(Channel::MAIN, main);
        }
        world
    }

    fn say(&mut self, what: impl Into<String>) {
        self.log.push(format!("{:>3} {}", self.now, what.into()));
    }

    fn see(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    fn is_resumable(&self) -> bool {
        self.delivery == Delivery::Resumable
    }

    pub fn step(&mut self, step: Step) -> Checked {
        self.now += 1;
        match step {
            Step::Open if self.delivery != Delivery::OneStream => self.open(),
            Step::Open => {}
            Step::Read(n, most) => self.read_some(n, most)?,
            Step::Prime(n) => self.prime(n),
            Step::Detach(n) => self.detach_some(n)?,
            Step::Listen if self.delivery == Delivery::Once => {}
            // The one stream is opened once.
            Step::Listen if self.was_listened_to && !self.is_resumable() => {}
            Step::Listen => self.listen()?,
            Step::Resume(n, back) => self.resume(n, back)?,
            Step::Guess(n, number) => self.guess(n, number)?,
            Step::Send(n, size) => self.send(n, size.into())?,
            Step::Done(n) => self.finish(n, true),
            Step::EndEarly(n) => self.finish(n, false),
            Step::Flush => {
                self.say("flush");
                self.buffer.flush();
                self.wake()?;
                self.nobody_waits_in_vain()?;
                self.ask()?;
            }
            Step::HangUp(n) => self.hang_up(n),
            Step::Withdraw(n) => {
                if let Some(at) = self.channel(n) {
                    self.withdraw(Some(at));
                }
            }
            Step::WithdrawAll => self.withdraw(None),
            Step::TakeLost => self.take_lost()?,
            Step::Seal => self.seal()?,
            Step::Wait(quarters) => self.wait(quarters)?,
        }
        self.take_cuts()?;
        self.ask_if_woken()?;
        self.wake()?;
        self.whoever_has_ended_is_awake()?;
        self.count()
    }

    /// The n-th newest channel.
    fn channel(&self, n: u8) -> Option<Channel> {
        self.channels.keys().nth_back(n.into()).copied()
    }

    fn reader(&self, n: u8) -> Option<usize> {
        self.readers.keys().nth_back(n.into()).copied()
    }

    fn books(&mut self, at: Channel) -> &mut Books {
        self.channels.entry(at).or_default()
    }

    fn new_reader(&mut self, lease: Lease, streams: bool) -> usize {
        let name = self.now as usize;
        let reader = Reader {
            lease,
            streams,
            waits: false,
        };
        self.readers.insert(name, reader);
        self.sender.last_move = self.sender.clock;
        name
    }

    fn open(&mut self) {
        let at = Channel(self.now);
        self.say(format!("open {at:?}"));
        let lease = self.buffer.open(at);
        let reader = self.new_reader(lease, false);
        let sealed = self.sealed;
        let books = self.books(at);
        books.reader = Some(reader);
        books.ended = sealed.then_some(false);
    }

    fn listen(&mut self) -> Checked {
        let lease = self.buffer.listen();
        self.say(format!("listen: {lease:?}"));
        self.was_listened_to = true;
        let reader = self.new_reader(lease, true);
        let (over, sealed) = (self.over, self.sealed);
        let books = self.channels.entry(Channel::MAIN).or_default();
        if std::mem::take(&mut books.gone) {
            *books = Books::default();
        }
        if sealed {
            books.ended = Some(true);
        }
        let from = books.position.max(books.withdrawn);
        let fenced = books.reader.replace(reader).is_some();
        books.position = lease.after;
        books.hangs_up = false;
        books.moves();
        if lease.after < from || lease.after > books.last() {
            return broken(
                1,
                format!("it goes on behind {} and not {from}", lease.after),
            );
        }
        // What was forgotten meanwhile is skipped; nothing else may be.
        let skipped = books
            .sent
            .get(lease.after.saturating_sub(1) as usize)
            .filter(|_| lease.after > from);
        if let Some((_, at)) = skipped {
            if over.is_none_or(|over| over < *at) && !sealed {
                return broken(
                    4,
                    format!("{from} to {} were forgotten for nothing", lease.after),
                );
            }
            self.see("skipped what was forgotten");
        }
        if fenced {
            self.see("fenced");
        }
        Ok(())
    }

    /// A client comes back for what follows the last event it was told of, or an earlier one.
    fn resume(&mut self, n: u8, back: u8) -> Checked {
        let known = self.channels.iter().filter(|(_, it)| it.told.is_some());
        let Some((&at, books)) = known.rev().nth(n.into()) else {
            return Ok(());
        };
        let after = books.told.unwrap_or_default().saturating_sub(back.into());
        self.resume_at(at, after)
    }

    fn guess(&mut self, n: u8, number: u8) -> Checked {
        let at = self.channel(n).unwrap_or(Channel(99_999));
        let number = match number {
            0 => u64::MAX,
            number => u64::from(number) * 3,
        };
        self.resume_at(at, number)
    }

    fn resume_at(&mut self, at: Channel, after: u64) -> Checked {
        let resumed = self.buffer.resume(at, after);
        self.say(format!("resume {at:?} behind {after}: {resumed:?}"));
        let (over, resumable, sealed, main) = (
            self.over,
            self.is_resumable(),
            self.sealed,
            at == Channel::MAIN,
        );
        let books = self.channels.get(&at);
        match (resumed, books) {
            (Err(NotKept), None) => Ok(()),
            (Err(NotKept), Some(books)) => {
                // The first event that would be read, and the last there was.
                let sent_at = |number: u64| books.sent.get(number as usize).map(|(_, at)| *at);
                let since = match books.ended {
                    Some(_) => sent_at(after).or(sent_at(books.last().saturating_sub(1))),
                    None => sent_at(after),
                };
                // The newest event of all, or of a channel that is not done, stays until it is read.
                let newest = books
                    .sent
                    .last()
                    .is_some_and(|(text, _)| Some(text.name) == self.newest);
                let unread = books.reader.is_none() && books.position < books.last();
                let stays = unread
                    && after.checked_add(1) == Some(books.last())
                    && (books.ended.is_none() || newest);
                let forgotten =
                    !stays && since.is_some_and(|at| over.is_some_and(|over| over >= at));
                let is_spent = books.ended.is_some() && books.withdrawn == books.last();
                let never_was = after > books.last() || books.told.is_none();
                let withdrawn = after < books.withdrawn;
                let excused = !resumable
                    || sealed
                    || books.gone
                    || forgotten
                    || is_spent
                    || never_was
                    || withdrawn;
                if !excused {
                    return broken(
                        4,
                        format!("{at:?} cannot be resumed behind {after}, for nothing"),
                    );
                }
                self.see("refused to resume");
                Ok(())
            }
            (Ok(lease), books) => {
                let Some(books) = books.filter(|_| resumable) else {
                    return broken(8, format!("{at:?} was resumed, and nobody can"));
                };
                if after > books.last() || books.told.is_none() {
                    return broken(
                        1,
                        format!("{at:?} was resumed behind {after}, which nobody was told of"),
                    );
                }
                if after < books.withdrawn {
                    return broken(
                        10,
                        format!("{at:?} was resumed behind {after}, which was withdrawn"),
                    );
                }
                if (lease.channel, lease.after) != (at, after) {
                    return broken(1, format!("it was to go on behind {after}: {lease:?}"));
                }
                let again = after < books.position;
                self.was_listened_to |= main;
                let reader = self.new_reader(lease, true);
                let books = self.books(at);
                let fenced = books.reader.replace(reader).is_some();
                books.position = after;
                books.hangs_up = false;
                books.moves();
                self.see("resumed");
                if again {
                    self.see("read again");
                }
                if fenced {
                    self.see("fenced");
                }
                Ok(())
            }
        }
    }

    fn prime(&mut self, n: u8) {
        let Some(name) = self.reader(n).filter(|_| self.is_resumable()) else {
            return;
        };
        let lease = self.readers[&name].lease;
        let (at, after) = (lease.channel, lease.after);
        // Its stream begins with that, and there is no plain answer any more.
        let Some(reader) = self.readers.get_mut(&name).filter(|it| it.lease.after == 0) else {
            return;
        };
        reader.streams = true;
        self.say(format!("prime {at:?}"));
        self.buffer.prime(lease);
        let books = self.books(at);
        if books.reader != Some(name) {
            return;
        }
        books.told = books.told.max(Some(after));
        if std::mem::take(&mut books.hangs_up) {
            self.cut(at);
            self.see("hung up");
        }
    }

    fn read_some(&mut self, n: u8, most: u8) -> Checked {
        let Some(name) = self.reader(n) else {
            return Ok(());
        };
        if !self.readers[&name].streams && !self.begin(name)? {
            return Ok(());
        }
        for _ in 0..most {
            if !self.read(name)? {
                break;
            }
        }
        Ok(())
    }

    /// A reader asks how its channel begins. True if it is a stream.
    fn begin(&mut self, name: usize) -> Checked<bool> {
        let lease = self.readers[&name].lease;
        let at = lease.channel;
        let beginning = self.buffer.beginning(lease);
        self.say(format!("{at:?} begins: {beginning:?}"));
        let books = &self.channels[&at];
        let expected = match books.ended {
            _ if books.gone => Some(Beginning::Silence),
            _ if books.reader != Some(name) || books.overrun => Some(Beginning::Stream),
            Some(_) if books.unread().count() == 0 => Some(Beginning::Silence),
            Some(true) if books.unread().count() == 1 => {
                books.unread().next().map(|it| Beginning::Answer(*it))
            }
            None if books.unread().count() == 0 => None,
            _ => Some(Beginning::Stream),
        };
        if beginning != expected {
            return broken(
                6,
                format!("{at:?} begins with {beginning:?} and not {expected:?}"),
            );
        }
        let mut reader = self.readers.remove(&name).expect("a reader");
        match beginning {
            None => {
                reader.waits = true;
                self.readers.insert(name, reader);
                return Ok(false);
            }
            Some(Beginning::Stream) => {
                reader.streams = true;
                self.readers.insert(name, reader);
                self.see("began as a stream");
                return Ok(true);
            }
            Some(Beginning::Silence) => self.see("began with silence"),
            Some(Beginning::Answer(_)) => {
                self.books(at).gone = true;
                self.see("answered at once");
            }
        }
        // The exchange is over.
        self.detach(name, reader.lease)?;
        Ok(false)
    }

    /// A reader reads. True if there was an event.
    fn read(&mut self, name: usize) -> Checked<bool> {
        let lease = self.readers[&name].lease;
        let at = lease.channel;
        let next = self.buffer.read(lease);
        self.say(format!("read {at:?}: {next:?}"));
        let resumable = self.is_resumable();
        let books = self.channels.entry(at).or_default();
        if books.reader != Some(name) || books.overrun {
            return match next {
                Next::Cut => Ok(false),
                _ => broken(
                    2,
                    format!("a reader of {at:?} that was cut off reads {next:?}"),
                ),
            };
        }
        let due = books.due(books.position);
        match (next, due) {
            (Next::Event(number, text), Some((expected, sent))) => {
                let wrong = match () {
                    () if number <= books.withdrawn => Some(10),
                    () if number != expected => Some(1),
                    () if text != sent => Some(11),
                    () => None,
                };
                books.position = number;
                books.moves();
                self.sender.last_move = self.sender.clock;
                if resumable {
                    books.told = books.told.max(Some(number));
                }
                self.see("read");
                match wrong {
                    Some(invariant) => broken(
                        invariant,
                        format!("{number} {text:?} instead of {expected} {sent:?}"),
                    ),
                    None => Ok(true),
                }
            }
            (Next::Event(number, text), None) => {
                let invariant = if number <= books.withdrawn { 10 } else { 1 };
                broken(
                    invariant,
                    format!("{number} {text:?} was never sent on {at:?}, or read before"),
                )
            }
            (next, Some(due)) => broken(1, format!("{next:?} instead of {due:?}")),
            (next, None) => {
                let expected = match books.ended {
                    None => Next::Pending,
                    Some(true) => Next::Complete,
                    Some(false) => Next::CutShort,
                };
                if next != expected {
                    return broken(
                        6,
                        format!("{at:?} goes on with {next:?} and not {expected:?}"),
                    );
                }
                match next {
                    Next::Complete => self.see("ended complete"),
                    Next::CutShort => self.see("ended short"),
                    _ => self.readers.get_mut(&name).expect("a reader").waits = true,
                }
                Ok(false)
            }
        }
    }

    fn detach_some(&mut self, n: u8) -> Checked {
        let Some(name) = self.reader(n) else {
            return Ok(());
        };
        let reader = self.readers.remove(&name).expect("a reader");
        self.detach(name, reader.lease)
    }

    fn detach(&mut self, name: usize, lease: Lease) -> Checked {
        let at = lease.channel;
        let abandoned = self.buffer.detach(lease);
        self.say(format!("a reader of {at:?} goes, abandoned: {abandoned}"));
        let once = self.delivery == Delivery::Once;
        let books = self.books(at);
        let held = books.reader == Some(name) && !books.gone;
        let expected = once && held && books.ended.is_none() && books.lost == 0;
        books.lost += usize::from(abandoned);
        if held {
            books.reader = None;
            self.settle(at);
        }
        if abandoned != expected {
            return broken(
                5,
                format!("{at:?} is abandoned: {abandoned}, and not {expected}"),
            );
        }
        if abandoned {
            self.see("abandoned");
        }
        Ok(())
    }

    /// Nobody reads a channel any more: whether somebody can come back to it.
    fn settle(&mut self, at: Channel) {
        let returns = self.is_resumable() && !self.sealed;
        let books = self.books(at);
        let can_return = returns && books.told.is_some();
        books.gone |= books.reader.is_none() && !can_return;
    }

    /// The newest reader of a channel has lost it.
    fn cut(&mut self, at: Channel) {
        self.books(at).reader = None;
        self.settle(at);
    }

    fn send(&mut self, n: u8, size: usize) -> Checked {
        let at = match self.delivery {
            Delivery::OneStream => Channel::MAIN,
            _ => match self.channel(n) {
                Some(at) => at,
                None => return Ok(()),
            },
        };
        // What is said by others than the server comes in any case.
        if self.sender.held_until.is_some() && size.is_multiple_of(2) {
            return Ok(());
        }
        self.names += 1;
        let text = Text {
            name: self.names,
            size,
        };
        self.say(format!("send {text:?} on {at:?}"));
        let (before, before_bytes) = self.buffer.held();
        if before + 1 > LIMITS.kept || before_bytes + size > LIMITS.kept_bytes {
            self.over = Some(self.now);
        }
        self.buffer.send(at, text);
        let (resumable, sealed, now) = (self.is_resumable(), self.sealed, self.now);
        let books = self.channels.entry(at).or_default();
        let unread = self.delivery == Delivery::OneStream && books.reader.is_none();
        if sealed || books.ended.is_some() || books.overrun || books.gone || unread {
            let invariant = if sealed { 9 } else { 6 };
            return match self.buffer.held() == (before, before_bytes) {
                true => Ok(()),
                false => broken(invariant, format!("{at:?} took {text:?}")),
            };
        }
        if books.is_behind() && books.reader.is_some() && !self.waits_for(at) {
            self.sender.cuts += 1;
            match resumable {
                true => {
                    self.cut(at);
                    self.see("cut off for being behind");
                }
                false => {
                    self.books(at).overrun = true;
                    self.see("lost for being behind");
                }
            }
        }
        self.note_cuts(before_bytes, size)?;
        if self.channels[&at].gone || self.channels[&at].overrun {
            return Ok(());
        }
        self.newest = Some(text.name);
        self.books(at).sent.push((text, now));
        Ok(())
    }

    fn finish(&mut self, n: u8, complete: bool) {
        let Some(at) = self.channel(n) else { return };
        // The main channel is not done before the end.
        if at == Channel::MAIN && (self.is_resumable() || !complete) {
            return;
        }
        self.say(format!("{at:?} is done: {complete}"));
        match complete {
            true => self.buffer.done(at),
            false => self.buffer.end_early(at),
        }
        let one_stream = self.delivery == Delivery::OneStream;
        let books = self.books(at);
        if !complete || !one_stream {
            books.ended.get_or_insert(complete);
        }
    }

    fn hang_up(&mut self, n: u8) {
        let Some(at) = self.channel(n) else { return };
        self.say(format!("hang up {at:?}"));
        self.buffer.hang_up(at);
        let returns = self.is_resumable() && !self.sealed;
        let books = self.books(at);
        if !returns || books.reader.is_none() || books.gone {
            return;
        }
        if books.told.is_some() {
            self.cut(at);
            self.see("hung up");
        } else {
            self.books(at).hangs_up = true;
        }
    }

    fn withdraw(&mut self, at: Option<Channel>) {
        self.say(format!("withdraw {at:?}"));
        self.buffer.withdraw(at);
        let mut unread = 0;
        for (_, books) in self
            .channels
            .iter_mut()
            .filter(|(it, _)| at.is_none_or(|at| at == **it))
        {
            unread += books.unread().count();
            books.withdrawn = books.last();
        }
        if unread > 0 {
            self.see("withdrawn unread");
        }
    }

    fn take_lost(&mut self) -> Checked {
        for at in self.buffer.take_lost() {
            self.say(format!("{at:?} is lost"));
            let books = self.books(at);
            books.lost += 1;
            if books.lost > 1 || !books.overrun {
                return broken(5, format!("{at:?} is lost, {} times", books.lost));
            }
        }
        match self.buffer.has_lost() {
            true => broken(5, "there are more that are lost"),
            false => Ok(()),
        }
    }

    fn seal(&mut self) -> Checked {
        self.say("seal");
        self.buffer.seal();
        self.sealed = true;
        let all: Vec<Channel> = self.channels.keys().copied().collect();
        for at in all {
            let complete = at == Channel::MAIN;
            self.books(at).ended.get_or_insert(complete);
            self.settle(at);
        }
        self.see("sealed");
        self.wake()?;
        self.nobody_waits_in_vain()
    }

    /// Whoever is woken was waiting, and asks again.
    fn wake(&mut self) -> Checked {
        while let Some(woken) = self.buffer.next_woken() {
            let mut waiting = self.readers.values_mut().filter(|it| it.waits);
            let Some(reader) = waiting.find(|it| it.lease.reader == woken) else {
                // Its connection may have gone in the meantime.
                if self.readers.values().any(|it| it.lease.reader == woken) {
                    return broken(3, format!("{woken:?} is woken and does not wait"));
                }
                continue;
            };
            reader.waits = false;
            self.see("waited and woken");
        }
        Ok(())
    }

    /// After a flush nobody waits who has something to read.
    fn nobody_waits_in_vain(&self) -> Checked {
        for (name, reader) in self.readers.iter().filter(|(_, it)| it.waits) {
            let books = &self.channels[&reader.lease.channel];
            let holds = books.reader == Some(*name) && !books.overrun && !books.gone;
            if !holds || books.ended.is_some() || books.due(books.position).is_some() {
                return broken(3, format!("{reader:?} waits for nothing"));
            }
        }
        Ok(())
    }

    /// Whoever has lost its channel, or whose channel has ended, need not wait for a flush to learn it.
    fn whoever_has_ended_is_awake(&self) -> Checked {
        for (name, reader) in self.readers.iter().filter(|(_, it)| it.waits) {
            let books = &self.channels[&reader.lease.channel];
            let holds = books.reader == Some(*name) && !books.overrun && !books.gone;
            if !holds || books.ended.is_some() {
                return broken(
                    3,
                    format!("{reader:?} waits although its channel has ended for it"),
                );
            }
        }
        Ok(())
    }

    /// The books against what the buffer holds.
    fn count(&mut self) -> Checked {
        let (events, bytes) = self.buffer.held();
        let held: Vec<_> = self.buffer.channels().collect();
        let sum: usize = held.iter().map(|(_, len, _)| len).sum();
        if sum != events {
            return broken(
                7,
                format!("{events} events are counted, and there are {sum}"),
            );
        }
        let over = events > LIMITS.kept || bytes > LIMITS.kept_bytes;
        let mut most_bytes = LIMITS.kept_bytes;
        for (at, len, unread) in held {
            let Some(books) = self.channels.get(&at) else {
                return broken(8, format!("{at:?} was never opened"));
            };
            if books.gone || books.reader.is_none() && books.ended.is_some() && len == 0 {
                return broken(8, format!("{at:?} is held for nobody"));
            }
            if !self.is_resumable() && len != unread {
                return broken(7, format!("{at:?} keeps what was read"));
            }
            // The newest event of all, or of a channel that is not done, stays.
            let newest = books
                .sent
                .last()
                .is_some_and(|(text, _)| Some(text.name) == self.newest);
            let needed = match books.reader {
                Some(_) => unread,
                None => usize::from(books.ended.is_none() || newest).min(len),
            };
            if over && self.is_resumable() && len > needed {
                return broken(
                    7,
                    format!("{at:?} keeps {len} events, of which {needed} are needed"),
                );
            }
            if books.reader.is_some() && !books.overrun && unread != books.unread().count() {
                return broken(
                    1,
                    format!(
                        "{unread} events wait on {at:?}, and not {}",
                        books.unread().count()
                    ),
                );
            }
            let paced = self.sender.paced;
            if books.reader.is_some() && unread > LIMITS.backlog + 1 && !paced {
                return broken(7, format!("{unread} events wait on {at:?}"));
            }
            // The last one may have any size.
            let last = books.sent.last().map_or(0, |(text, _)| text.size);
            most_bytes += match books.reader {
                Some(_) if paced => LIMITS.total_bytes + last,
                Some(_) => LIMITS.backlog_bytes + last,
                None => last,
            };
        }
        if bytes > most_bytes {
            return broken(
                7,
                format!("{bytes} bytes are held, and {most_bytes} may be"),
            );
        }
        // Nothing may be missing unless the bounds were exceeded: reading changes that, too.
        if over {
            self.over = Some(self.now);
        }
        Ok(())
    }

    /// Everybody reads to the end, and goes: nothing is left.
    pub fn end(&mut self) -> Checked {
        self.now += 1;
        self.buffer.flush();
        self.wake()?;
        self.nobody_waits_in_vain()?;
        self.seal()?;
        self.step(Step::Send(0, 5))?;
        let all: Vec<usize> = self.readers.keys().copied().collect();
        for name in all {
            if !self.readers[&name].streams && !self.begin(name)? {
                if self.readers.contains_key(&name) {
                    return broken(9, "a reader waits for a sealed buffer");
                }
                continue;
            }
            while self.read(name)? {}
            if self.readers[&name].waits {
                return broken(9, "a reader waits for a sealed buffer");
            }
            let reader = self.readers.remove(&name).expect("a reader");
            self.detach(name, reader.lease)?;
            self.count()?;
        }
        self.take_lost()?;
        let left: Vec<_> = self.buffer.channels().collect();
        if self.buffer.held() != (0, 0) || !left.is_empty() || self.buffer.has_readers() {
            let held = self.buffer.held();
            return broken(7, format!("{held:?} in {left:?} are left of nothing"));
        }
        // Whoever was lost is told of by now.
        let untold = |books: &Books| books.overrun && books.lost != 1;
        match self.channels.iter().find(|(_, books)| untold(books)) {
            Some((at, books)) => broken(
                5,
                format!("{at:?} was lost, and that was told {} times", books.lost),
            ),
            None => Ok(()),
        }
    }
}
