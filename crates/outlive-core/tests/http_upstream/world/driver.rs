//! The driver: carries out what the session and its links say, and lets time pass.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use outlive_core::http_upstream::{Attempt, Config, HttpUpstream, Input, Output, QUIET};
use outlive_core::login::LoginStatus;
use outlive_core::{
    Frame, Generation, Id, Input as SessionInput, LinkInput, LinkOrder, Message,
    Output as SessionOutput, Time,
};

use super::{Broken, Flight, Link, World, broken};

impl World {
    pub(super) fn tick(&mut self) -> Result<(), Broken> {
        match self.next_deadline() {
            Some(at) => self.wait_until(at),
            None => Ok(()),
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        let links = self.links.iter().filter_map(|link| {
            let due = link.http.deadline()?;
            Some(link.begun + due.since_start())
        });
        links.chain(self.session.deadline()).min()
    }

    pub(super) fn wait_until(&mut self, to: Time) -> Result<(), Broken> {
        for _ in 0..10_000 {
            let Some(at) = self.next_deadline().filter(|at| *at <= to) else {
                self.now = self.now.max(to);
                return Ok(());
            };
            self.now = self.now.max(at);
            for link in 0..self.links.len() {
                self.http(link, Input::Tick)?;
            }
            self.session(SessionInput::Tick)?;
        }
        broken(3, "a deadline that stays")
    }

    pub(super) fn session(&mut self, input: SessionInput) -> Result<(), Broken> {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            self.session.handle(self.now, input);
            while let Some(output) = self.session.poll() {
                self.carry_out(output, &mut inputs)?;
            }
        }
        Ok(())
    }

    pub(super) fn carry_out(
        &mut self,
        output: SessionOutput,
        inputs: &mut VecDeque<SessionInput>,
    ) -> Result<(), Broken> {
        match output {
            SessionOutput::ToHost(line) | SessionOutput::ToHostOf(_, line) => self.host_gets(&line),
            SessionOutput::Refuse(refusal) => self.host_gets(&refusal.to_response()),
            SessionOutput::Connect(generation) => {
                self.say(format!("connect {generation}"));
                let http = HttpUpstream::new(Config {
                    limit: 1 << 20,
                    stall: Duration::from_secs(60),
                    transport: None,
                    handshake: true,
                    login: self.login,
                    known: self.known,
                });
                self.links.push(Link {
                    generation,
                    http,
                    begun: self.now,
                    flights: BTreeMap::new(),
                    dead: BTreeSet::new(),
                    sent: BTreeMap::new(),
                    named: false,
                    known: true,
                    broke: None,
                    over: false,
                    ended: false,
                    asked_for_login: None,
                    denied: false,
                });
                let at = self.links.len() - 1;
                inputs.push_back(SessionInput::Link(generation, LinkInput::Up));
                self.drain(at, inputs)
            }
            SessionOutput::ToLink(generation, message) => {
                let Some(at) = self.link_of(generation) else {
                    return Ok(());
                };
                if let (Some(id), true) = (message.id(), !message.method().is_empty()) {
                    let sent = self.links[at].sent.entry(id.to_string()).or_default();
                    sent.allowed += 1;
                    sent.cancelled = false;
                }
                if let Some(of) = message
                    .request_id()
                    .filter(|_| message.is("notifications/cancelled"))
                {
                    self.links[at]
                        .sent
                        .entry(of.to_string())
                        .or_default()
                        .cancelled = true;
                }
                self.feed(at, Input::Send(message), inputs)
            }
            SessionOutput::Link(generation, order) => match (self.link_of(generation), order) {
                (Some(at), LinkOrder::CloseInput) => self.feed(at, Input::Close, inputs),
                (Some(at), LinkOrder::Kill | LinkOrder::Terminate) => {
                    self.feed(at, Input::Kill, inputs)
                }
                _ => Ok(()),
            },
            SessionOutput::Resend {
                generation,
                id,
                granted,
            } => {
                let Some(at) = self.link_of(generation) else {
                    return Ok(());
                };
                match granted {
                    true => self.seen.granted += 1,
                    false => self.seen.denied += 1,
                }
                self.say(format!("{at}: {id} is sent again: {granted}"));
                if granted {
                    self.links[at]
                        .sent
                        .entry(id.to_string())
                        .or_default()
                        .allowed += 1;
                }
                self.feed(at, Input::Resend(id, granted), inputs)
            }
            SessionOutput::Closed => {
                self.closed = true;
                Ok(())
            }
            SessionOutput::Over(_) | SessionOutput::Initialized | SessionOutput::Event(_) => Ok(()),
        }
    }

    pub(super) fn link_of(&self, generation: Generation) -> Option<usize> {
        self.links
            .iter()
            .position(|link| link.generation == generation && !link.ended)
    }

    pub(super) fn host_gets(&mut self, message: &Message) -> Result<(), Broken> {
        let text = String::from_utf8_lossy(message.bytes()).into_owned();
        self.say(format!("host gets {text}"));
        if !message.method().is_empty() {
            return Ok(());
        }
        let Some(Id::Int(id)) = message.id().cloned() else {
            return Ok(());
        };
        let Some(call) = self.calls.get_mut(&id) else {
            return Ok(());
        };
        if call.cancelled {
            return broken(2, format!("{id} was cancelled and is answered"));
        }
        if std::mem::replace(&mut call.answered, true) {
            return broken(1, format!("{id} is answered twice"));
        }
        self.seen.answers += 1;
        call.told = text.contains("input_required");
        if call.told {
            self.seen.told_of_a_login += 1;
            let answer: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            self.round = answer["result"]["requestState"].as_str().map(Into::into);
        }
        let unexecuted = call.told
            || text.contains(r#""outcome":"not_sent""#)
            || text.contains(r#""outcome":"rejected""#);
        if unexecuted && call.executed > 0 {
            return broken(
                4,
                format!("{id} was executed, and the host is told that it was not"),
            );
        }
        Ok(())
    }

    /// Something happens on a link.
    pub(super) fn http(&mut self, at: usize, input: Input) -> Result<(), Broken> {
        let mut inputs = VecDeque::new();
        self.feed(at, input, &mut inputs)?;
        while let Some(input) = inputs.pop_front() {
            self.session(input)?;
        }
        Ok(())
    }

    pub(super) fn feed(
        &mut self,
        at: usize,
        input: Input,
        inputs: &mut VecDeque<SessionInput>,
    ) -> Result<(), Broken> {
        let now = Time::after(self.now - self.links[at].begun);
        self.links[at].http.handle(now, input);
        self.drain(at, inputs)
    }

    pub(super) fn drain(
        &mut self,
        at: usize,
        inputs: &mut VecDeque<SessionInput>,
    ) -> Result<(), Broken> {
        while let Some(output) = self.links[at].http.poll() {
            let reply = self.perform(at, output, inputs)?;
            if let Some(reply) = reply {
                let now = Time::after(self.now - self.links[at].begun);
                self.links[at].http.handle(now, reply);
            }
        }
        let link = &self.links[at];
        // A request under way has an exchange, and a link two streams and a list beside them.
        if link.http.under_way() != link.flights.len() {
            return broken(
                7,
                format!(
                    "{} under way, {} are",
                    link.http.under_way(),
                    link.flights.len()
                ),
            );
        }
        Ok(())
    }

    pub(super) fn fly(
        &mut self,
        at: usize,
        attempt: Attempt,
        message: Option<Message>,
        cursor: Option<String>,
    ) -> Result<(), Broken> {
        let (turn, mirrored) = (self.turn, self.mirror);
        let link = &mut self.links[at];
        if link.ended {
            return broken(6, format!("{attempt:?} leaves after the end"));
        }
        let flight = Flight {
            message,
            written: false,
            begun: false,
            stream: false,
            ids: false,
            turn,
            mirrored,
            in_session: link.named,
            cursor,
            delete: false,
            answered: false,
        };
        match link.flights.insert(attempt, flight) {
            None => Ok(()),
            Some(_) => broken(6, format!("{attempt:?} twice")),
        }
    }

    /// Something but a farewell is sent: not into a break.
    pub(super) fn is_quiet(&mut self, at: usize, attempt: Attempt) -> Result<(), Broken> {
        let link = &mut self.links[at];
        if let Some(broke) = link.broke {
            if self.now - broke < QUIET {
                return broken(8, format!("{attempt:?} leaves into a break"));
            }
            self.seen.quiet += 1;
            link.broke = None;
        }
        Ok(())
    }

    pub(super) fn perform(
        &mut self,
        at: usize,
        output: Output,
        inputs: &mut VecDeque<SessionInput>,
    ) -> Result<Option<Input>, Broken> {
        match output {
            Output::Post {
                attempt,
                message,
                to,
            } => {
                self.say(format!(
                    "{at}: POST {attempt:?} {}",
                    String::from_utf8_lossy(message.bytes())
                ));
                self.posted(at, &message, to.is_some())?;
                self.is_quiet(at, attempt)?;
                self.fly(at, attempt, Some(message), None)?;
            }
            Output::Get {
                attempt, cursor, ..
            } => {
                if self.links[at].over {
                    return broken(6, format!("{attempt:?} GET after the end"));
                }
                self.is_quiet(at, attempt)?;
                self.fly(at, attempt, None, cursor)?;
            }
            Output::Delete { attempt, .. } => {
                self.seen.deletes += 1;
                self.left(at)?;
                self.fly(at, attempt, None, None)?;
                if let Some(flight) = self.links[at].flights.get_mut(&attempt) {
                    flight.delete = true;
                }
            }
            Output::Leave { .. } => self.left(at)?,
            Output::Abort(attempt) => {
                let link = &mut self.links[at];
                if link.flights.remove(&attempt).is_none() && !link.dead.contains(&attempt) {
                    return broken(6, format!("{attempt:?} is given up and was never made"));
                }
                link.dead.insert(attempt);
            }
            Output::Authenticate { turn, .. } => {
                self.seen.logins += 1;
                let link = &mut self.links[at];
                if !self.login || link.asked_for_login.replace(turn).is_some() {
                    return broken(9, "credentials are asked for twice at once");
                }
                let status = LoginStatus::Wanted {
                    number: self.seen.logins.into(),
                    link: "https://as.example/".into(),
                    code: None,
                };
                let told = SessionInput::Link(link.generation, LinkInput::Login(status));
                inputs.push_back(told);
            }
            Output::Compare { number, had, .. } => {
                self.seen.listings += 1;
                return Ok(Some(Input::Compared(number, self.mirror != had)));
            }
            Output::Learn(_) => self.mirror = self.tools,
            Output::PassList(list) => {
                self.mirror = self.tools;
                let frame = Frame::Message(list);
                self.reported(at, &LinkInput::Frame(frame.clone()))?;
                let generation = self.links[at].generation;
                inputs.push_back(SessionInput::Link(generation, LinkInput::Frame(frame)));
            }
            Output::Locate(_) => return Ok(Some(Input::Located(Ok(())))),
            Output::Named => self.links[at].named = true,
            Output::Know(known) => self.known = known,
            Output::Link(input) => {
                self.say(format!("{at}: {input:?}"));
                self.reported(at, &input)?;
                let generation = self.links[at].generation;
                inputs.push_back(SessionInput::Link(generation, input));
            }
            Output::Ended => {
                let link = &mut self.links[at];
                link.ended = true;
                link.flights.clear();
                let (generation, sent) = (link.generation, link.http.sent());
                let exit = outlive_core::cause::Exit::Unknown;
                inputs.push_back(SessionInput::Link(
                    generation,
                    LinkInput::Exited { exit, sent },
                ));
            }
            Output::Renew | Output::Settle(_) | Output::Version(_) => {}
        }
        Ok(None)
    }
}
