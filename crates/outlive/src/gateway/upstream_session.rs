//! One server, the session with it, and the clients that use it.
//!
//! Clients come on the tasks of their connections, the server on the task of its driver. Both meet
//! in the [`Switch`], under a lock that is held for as long as it takes to look up whose a message is: it was read
//! before. What is for the session goes into a mailbox, what is for clients into their [outlets](Outlet).

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Instant;

use outlive_core::error::{Error, Refusal};
use outlive_core::gateway::{ServerId, TargetId, Urgency, Usage, Used};
use outlive_core::link::Generation;
use outlive_core::replay_buffer::Cuts;
use outlive_core::request;
use outlive_core::server::Channel;
use outlive_core::switch::{self, Client, Input, Output, Sharing, Switch};
use outlive_core::{
    AbandonReason, Event, Frame, Id, Input as SessionInput, Message, Meter, State, Time,
};
use tokio::time::Sleep;

use super::outlet::{Outlet, Woken};
use super::recent::{Recent, RequestWatch};
use super::target::Target;
use super::upstreams::Upstreams;
use super::usage::LiveUsage;
use crate::client::mailbox::{self, Mailbox, Rank};
use crate::driver::downstream::Downstream;
use crate::io::spin::{Look, Thread};
use crate::observer::Numbered;

/// The clients of modern requests, who are not told apart.
pub(super) const EVERYBODY: Client = Client(0);

/// What clients want of the session.
#[derive(Debug)]
enum Command {
    Call(Id, Message),
    Cancel(Id, Message, AbandonReason),
    Answer(Message),
    Notify(Message),
    Restart,
    Stop,
}

impl mailbox::Ranked for Command {
    fn call(&self) -> Option<usize> {
        match self {
            Command::Call(_, message) | Command::Notify(message) => Some(message.bytes().len()),
            Command::Cancel(..) | Command::Answer(_) | Command::Restart | Command::Stop => None,
        }
    }

    fn rank(&self) -> Rank {
        match self {
            Command::Call(..) => Rank::Call,
            Command::Notify(_) => Rank::Notice,
            Command::Answer(_) => Rank::Answer,
            Command::Cancel(..) | Command::Restart | Command::Stop => Rank::Urgent,
        }
    }
}

/// One server and its clients.
pub(super) struct UpstreamSession {
    pub(super) id: ServerId,
    pub(super) sharing: Sharing,
    pub(super) target: Arc<Target>,
    inside: Mutex<Inside>,
    mailbox: Mailbox<Command>,
    live_usage: LiveUsage,
}

impl Used for UpstreamSession {
    fn usage(&self) -> Usage {
        self.live_usage.usage()
    }
}

struct Inside {
    switch: Switch,
    outlets: BTreeMap<Client, Outlet>,
    /// Clients whose readers are to be woken.
    dirty: Vec<Client>,
    /// Streams that were cut off and that the session was not told of.
    cuts: Cuts,
    state: State,
    /// How often it was told to stop.
    stops: u32,
    ended: bool,
    /// What its one client calls itself.
    client: Option<String>,
}

impl UpstreamSession {
    /// `clock`: when there began to be a gateway.
    pub(super) fn new(
        id: ServerId,
        sharing: Sharing,
        target: Arc<Target>,
        clock: Instant,
    ) -> UpstreamSession {
        let limits = &target.policy.limits;
        let mut bounds = switch::SwitchLimits::default();
        // Twice what the session takes: the clients of a server wait for each other here.
        bounds.bytes =
            2 * (limits.in_flight_bytes.saturating_add(limits.held_bytes)).min(bounds.bytes / 2);
        let inside = Inside {
            switch: match target.confirms() {
                true => Switch::new(sharing, bounds).confirming(),
                false => Switch::new(sharing, bounds),
            },
            outlets: BTreeMap::new(),
            dirty: Vec::new(),
            cuts: Cuts::default(),
            state: State::Connecting { attempt: 1 },
            stops: 0,
            ended: false,
            client: None,
        };
        // Room for whatever the switch lets in.
        let mut room = *limits;
        room.in_flight = bounds.calls;
        room.held_bytes = 2 * bounds.bytes;
        UpstreamSession {
            id,
            sharing,
            target,
            inside: Mutex::new(inside),
            mailbox: Mailbox::new(&room),
            live_usage: LiveUsage::new(clock),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client comes; it is told things through its outlet. A server that is its alone waits for it when it reads
    /// slowly.
    pub(super) fn join(&self, client: Client, outlet: &Outlet) {
        self.live_usage.touch();
        if self.sharing == Sharing::Dedicated {
            outlet.pace();
        }
        let mut woken = Woken::default();
        let mut inside = self.lock();
        match inside.ended {
            true => outlet.seal(&mut woken),
            false => drop(inside.outlets.insert(client, outlet.clone())),
        }
        drop(inside);
        woken.run();
    }

    /// A router comes with modern requests. It is told what becomes of them also if the session has ended.
    pub(super) fn join_pool(&self, client: Client, outlet: &Outlet) {
        let mut inside = self.lock();
        inside
            .outlets
            .entry(client)
            .or_insert_with(|| outlet.clone());
    }

    /// The one client there is begins the handshake with these parameters.
    pub(super) fn name_client(&self, params: &[u8]) {
        let client = name_of(params);
        self.lock().client = client;
    }

    /// What its one client calls itself.
    pub(super) fn client_name(&self) -> Option<String> {
        self.lock().client.clone()
    }

    /// When somebody last had a use for it.
    pub(super) fn last_use(&self) -> Time {
        self.live_usage.last_use()
    }

    /// A request was assigned to it, and is [heard](UpstreamSession::hear_expected) next.
    pub(super) fn expect(&self) {
        self.live_usage.expect();
    }

    /// A client says what was expected.
    pub(super) fn hear_expected(&self, client: Client, channel: Channel, frame: Frame) {
        self.hear(client, channel, frame);
        self.live_usage.arrived();
    }

    /// A client says something.
    pub(super) fn hear(&self, client: Client, channel: Channel, frame: Frame) {
        self.live_usage.touch();
        let mut inside = self.lock();
        self.feed(&mut inside, Input::Frame(client, channel, frame));
        let woken = inside.flush();
        drop(inside);
        woken.run();
    }

    /// A client closed a channel.
    pub(super) fn left(&self, client: Client, channel: Channel) {
        self.feed(&mut self.lock(), Input::Left(client, channel));
    }

    /// A client is gone for good, and reads nothing any more.
    pub(super) fn gone(&self, client: Client) {
        self.live_usage.touch();
        let mut woken = Woken::default();
        let mut inside = self.lock();
        self.feed(&mut inside, Input::Gone(client));
        if let Some(outlet) = inside.outlets.remove(&client) {
            outlet.seal(&mut woken);
        }
        drop(inside);
        woken.run();
    }

    /// The token was withdrawn that this channel of a client was opened with.
    pub(super) fn withdraw(&self, client: Client, channel: Channel) {
        let mut inside = self.lock();
        self.feed(&mut inside, Input::Withdrawn(client, channel));
        let woken = inside.flush();
        drop(inside);
        woken.run();
    }

    /// Tells the session to stop. Being told the same again changes nothing.
    pub(super) fn stop(&self, urgency: Urgency) {
        let times = match urgency {
            Urgency::Graceful => 1,
            Urgency::Immediate => 2,
        };
        let mut inside = self.lock();
        while inside.stops < times {
            inside.stops += 1;
            // If it is closed, it has stopped.
            let _ = self.mailbox.push(Command::Stop);
        }
    }

    /// Puts a new server under the session.
    pub(super) fn restart(&self) {
        let _ = self.mailbox.push(Command::Restart);
    }

    pub(super) fn state(&self) -> State {
        self.lock().state.clone()
    }

    pub(super) fn in_flight(&self) -> usize {
        self.live_usage.in_flight()
    }

    pub(super) fn in_flight_of(&self, client: Client) -> usize {
        self.lock().switch.in_flight_of(client)
    }

    /// Hands an input to the switch and does what it says.
    fn feed(&self, inside: &mut Inside, input: Input) {
        inside.switch.handle(input);
        while let Some(output) = inside.switch.poll() {
            let command = match output {
                Output::Send(client, channel, message) => {
                    inside.send(client, channel, message);
                    continue;
                }
                Output::Offer(client, channel, message) => {
                    let outlet = inside.outlets.get(&client);
                    let heard = outlet.is_some_and(|outlet| outlet.is_read(Channel::MAIN));
                    let channel = if heard { Channel::MAIN } else { channel };
                    inside.send(client, channel, message);
                    continue;
                }
                Output::Done(client, channel) => {
                    if let Some(outlet) = inside.outlets.get(&client) {
                        outlet.done(channel);
                    }
                    continue;
                }
                Output::Call(id, call) => {
                    if let Err(error) = self.mailbox.push(Command::Call(id.clone(), call)) {
                        let refusal = refusal(id.to_json(), error);
                        inside.switch.handle(Input::Refused(refusal.into()));
                    }
                    continue;
                }
                Output::Cancel(id, message, reason) => Command::Cancel(id, message, reason),
                Output::Answer(message) => Command::Answer(message),
                Output::Notify(client, channel, message) => {
                    if self.mailbox.push(Command::Notify(message)).is_err() {
                        inside.send(client, channel, switch::overloaded_notification());
                    }
                    continue;
                }
            };
            // What finds no room, or nobody who reads it, is not waited for.
            let _ = self.mailbox.push(command);
        }
        self.live_usage.read(&inside.switch);
    }

    /// The session is over, however that came about.
    fn end(&self) {
        drop(self.mailbox.close());
        let mut inside = self.lock();
        inside.ended = true;
        inside.state = State::Closed;
        self.feed(&mut inside, Input::Ended);
        let mut woken = inside.flush();
        if self.sharing != Sharing::Pooled {
            for outlet in std::mem::take(&mut inside.outlets).into_values() {
                outlet.seal(&mut woken);
            }
        }
        drop(inside);
        woken.run();
    }
}

impl Inside {
    fn send(&mut self, client: Client, channel: Channel, message: Message) {
        if let Some(outlet) = self.outlets.get(&client) {
            outlet.send(channel, message);
            // To be woken twice does no harm, and most often there is one client.
            if self.dirty.last() != Some(&client) {
                self.dirty.push(client);
            }
        }
    }

    /// Wakes whoever has something to read.
    fn flush(&mut self) -> Woken {
        let mut woken = Woken::default();
        for client in self.dirty.drain(..) {
            if let Some(outlet) = self.outlets.get(&client) {
                outlet.flush(&mut woken);
                if let Some(cuts) = outlet.take_cuts() {
                    self.cuts.streams += cuts.streams;
                    self.cuts.unread_bytes += cuts.unread_bytes;
                }
            }
        }
        woken
    }
}

/// What a client calls itself in the parameters of its `initialize`.
fn name_of(params: &[u8]) -> Option<String> {
    /// Letters that are shown.
    const MOST: usize = 80;
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        client_info: Info,
    }
    #[derive(serde::Deserialize)]
    struct Info {
        name: String,
        #[serde(default)]
        version: String,
    }
    let Params { client_info: info } = serde_json::from_slice(params).ok()?;
    let name = format!("{} {}", info.name, info.version);
    Some(name.trim().chars().take(MOST).collect())
}

/// A refusal of a request that never reached the session.
fn refusal(id_json: String, error: Error) -> Refusal {
    Refusal {
        id_json: id_json.into(),
        what: "the request".into(),
        error,
        generation: Generation::FIRST,
    }
}

/// The clients' side of the driver.
pub(super) struct GatewayDownstream {
    upstream: Arc<UpstreamSession>,
    target: TargetId,
    upstreams: Weak<Upstreams>,
    recent: Arc<Recent>,
    /// Commands that were taken out of the mailbox and not yet carried out.
    commands: VecDeque<Command>,
    /// When there began to be a gateway: all servers of a client tell it the same time.
    clock: Instant,
    /// Whose thread this is, if it may be kept busy.
    thread: Option<Thread>,
    /// Set while a slow client holds its server back: when it is asked again whether it does.
    held_back: Option<Pin<Box<Sleep>>>,
}

impl GatewayDownstream {
    pub(super) fn new(
        upstream: Arc<UpstreamSession>,
        target: TargetId,
        upstreams: &Arc<Upstreams>,
    ) -> GatewayDownstream {
        GatewayDownstream {
            target,
            recent: upstream.target.recent.clone(),
            upstream,
            upstreams: Arc::downgrade(upstreams),
            commands: VecDeque::new(),
            clock: upstreams.clock,
            thread: upstreams.thread(),
            held_back: None,
        }
    }

    /// Asks whether the one client of a server reads so slowly that the server should wait for it. Tells if that has
    /// changed.
    fn hold_back(&mut self, cx: &mut Context<'_>) -> Option<SessionInput> {
        if self.upstream.sharing != Sharing::Dedicated {
            return None;
        }
        let now = Time::after(self.clock.elapsed());
        let inside = self.upstream.lock();
        let outlet = inside.outlets.values().next();
        let until = outlet.and_then(|outlet| outlet.hold_back(now, cx.waker()));
        drop(inside);
        let was_held = self.held_back.is_some();
        self.held_back = until.map(|at| {
            let at = self.clock + at.since_start();
            let mut alarm = Box::pin(tokio::time::sleep_until(at.into()));
            if alarm.as_mut().poll(cx).is_ready() {
                cx.waker().wake_by_ref();
            }
            alarm
        });
        let is_held = self.held_back.is_some();
        (was_held != is_held).then_some(SessionInput::HostBlocked(is_held))
    }

    /// A request that has not reached the session is simply not sent.
    fn cancel(&mut self, id: &Id, message: Message, reason: AbandonReason) -> Option<SessionInput> {
        let is_it = |command: &Command| matches!(command, Command::Call(call, _) if call == id);
        if let Some(at) = self.commands.iter().position(is_it) {
            self.commands.remove(at);
            self.over(id);
            return None;
        }
        Some(SessionInput::Abandon(message, reason))
    }
}

impl Downstream for GatewayDownstream {
    fn thread(&self) -> Option<Thread> {
        self.thread
    }

    fn meter(&self) -> Option<Arc<Meter>> {
        Some(self.upstreams.upgrade()?.meter.clone())
    }

    fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        open: bool,
        _look: Look,
    ) -> Poll<Option<SessionInput>> {
        loop {
            let command = match mailbox::next(&mut self.commands, open) {
                Some(command) => command,
                None => match self.upstream.mailbox.take(cx, &mut self.commands) {
                    Poll::Ready(()) => continue,
                    Poll::Pending => return Poll::Pending,
                },
            };
            let input = match command {
                Command::Call(_, message) | Command::Answer(message) | Command::Notify(message) => {
                    Some(SessionInput::Host(Frame::Message(message)))
                }
                Command::Cancel(id, message, reason) => self.cancel(&id, message, reason),
                Command::Restart => Some(SessionInput::Restart),
                Command::Stop => Some(SessionInput::Stop),
            };
            if input.is_some() {
                return Poll::Ready(input);
            }
        }
    }

    fn observer(&self) -> Option<Arc<dyn request::Observer>> {
        let observer = self.upstreams.upgrade()?.observer.clone();
        let watches = observer.watches_requests();
        let numbered = || Numbered {
            session: Some(self.upstream.id.0),
            observer,
        };
        Some(Arc::new(RequestWatch {
            server: self.upstream.id,
            recent: self.recent.clone(),
            observer: watches.then(numbered),
        }))
    }

    fn send(&mut self, message: Message) {
        let upstream = &self.upstream;
        self.recent.learn(upstream.id, &message);
        if upstream.sharing == Sharing::Pooled {
            upstream.target.learn(&message);
        }
        upstream.feed(&mut upstream.lock(), Input::Said(message));
    }

    fn send_of(&mut self, owner: Option<Id>, message: Message) {
        let upstream = &self.upstream;
        upstream.feed(&mut upstream.lock(), Input::SaidOf(owner, message));
    }

    fn over(&mut self, id: &Id) {
        let upstream = &self.upstream;
        upstream.feed(&mut upstream.lock(), Input::Over(id.clone()));
    }

    fn refuse(&mut self, refusal: Refusal) {
        let upstream = &self.upstream;
        upstream.feed(&mut upstream.lock(), Input::Refused(refusal.into()));
    }

    fn initialized(&mut self) {
        let upstream = &self.upstream;
        upstream.feed(&mut upstream.lock(), Input::Initialized);
    }

    fn event(&mut self, now: Time, event: &Event) -> Option<SessionInput> {
        match event {
            Event::State(state) => self.upstream.lock().state = state.clone(),
            Event::Lost { generation, .. } => {
                let upstream = &self.upstream;
                upstream.feed(&mut upstream.lock(), Input::Lost(*generation));
            }
            Event::Connected {
                server: Some(software),
                ..
            } => self.recent.name_software(software.to_string()),
            _ => {}
        }
        if let Some(upstreams) = self.upstreams.upgrade() {
            // What the machine knows of servers comes of these; the others need not be told under its lock.
            let counts = matches!(
                event,
                Event::State(_) | Event::Lost { .. } | Event::HandshakeFailed { .. }
            );
            if counts {
                upstreams.observe(self.upstream.id, event);
            }
            upstreams
                .observer
                .event(Some(self.upstream.id.0), now, event);
        }
        None
    }

    fn stderr(&mut self, line: &str) {
        if let Some(upstreams) = self.upstreams.upgrade() {
            upstreams.observer.stderr(Some(self.upstream.id.0), line);
        }
    }

    fn flush(&mut self, cx: &mut Context<'_>) -> Option<SessionInput> {
        let mut inside = self.upstream.lock();
        let woken = inside.flush();
        let modern = inside.outlets.get(&EVERYBODY);
        let lost = modern.map_or(Vec::new(), Outlet::take_lost);
        let cuts = std::mem::take(&mut inside.cuts);
        drop(inside);
        woken.run();
        if !lost.is_empty()
            && let Some(upstreams) = self.upstreams.upgrade()
        {
            // A modern client that does not read is one that has left, whichever server it is with.
            for upstream in upstreams.pooled(self.target) {
                for channel in &lost {
                    upstream.left(EVERYBODY, *channel);
                }
            }
        }
        if cuts.streams > 0 {
            return Some(SessionInput::StreamsCut {
                streams: cuts.streams,
                unread_bytes: cuts.unread_bytes,
            });
        }
        self.hold_back(cx)
    }

    fn backlog(&self) -> usize {
        0
    }

    fn is_blocked(&self) -> bool {
        self.held_back.is_some()
    }

    fn is_told(&self) -> bool {
        true
    }
}

/// However the task that owned the session ended: nobody is left waiting.
impl Drop for GatewayDownstream {
    fn drop(&mut self) {
        self.upstream.end();
        if let Some(upstreams) = self.upstreams.upgrade() {
            upstreams.ended(self.upstream.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    use outlive_core::cause::StartFailure;
    use outlive_core::gateway::TargetLimits;
    use outlive_core::policy::Policy;
    use outlive_core::replay_buffer::Delivery;

    use super::super::target::Source;
    use crate::http_server::{Beginning, ReplayBuffer};

    /// What becomes of a notification on a channel of its own.
    fn notify(
        upstream: &UpstreamSession,
        replay: &Arc<ReplayBuffer>,
        channel: u64,
    ) -> Option<Beginning> {
        let channel = Channel(channel);
        let turn = replay.open(channel);
        let message = Message::notification("notifications/vendor/thing", b"");
        upstream.hear(Client(1), channel, Frame::Message(message));
        replay.beginning(turn, Waker::noop())
    }

    #[test]
    fn a_notification_there_is_no_room_for_is_refused() {
        for sharing in [Sharing::Dedicated, Sharing::Shared] {
            let mut policy = Policy::default();
            policy.limits.held = 0;
            let source = Source::Nowhere(StartFailure::Other(String::new()));
            let target = Target::new("t".into(), source, policy, TargetLimits::default());
            let target = Arc::new(target);
            let upstream = UpstreamSession::new(ServerId(1), sharing, target, Instant::now());
            let replay = Arc::new(ReplayBuffer::new(Delivery::Resumable));
            upstream.join(Client(1), &Outlet::Buffer(replay.clone()));
            let room = switch::SwitchLimits::default().calls as u64;
            for channel in 1..=room {
                assert_eq!(
                    notify(&upstream, &replay, channel),
                    Some(Beginning::Silence)
                );
            }
            let refused = notify(&upstream, &replay, room + 1);
            let Some(Beginning::Answer(answer)) = refused else {
                panic!("{refused:?}");
            };
            let error: serde_json::Value = serde_json::from_slice(answer.bytes()).expect("JSON");
            assert_eq!(error.get("id"), None, "{error}");
            assert_eq!(error["error"]["data"]["outlive"]["kind"], "unavailable");
        }
    }
}
