//! What happens in a step.

use std::time::Duration;

use outlive_core::Frame;
use outlive_core::Id;
use outlive_core::framer::TooLong;
use outlive_core::protocol::List;
use outlive_core::server::{Answer, Ask, AskId, CloseKind, Input, Level, RpcError, Ticket};

use crate::world::Broken;

use super::schedule::{Method, Step};
use super::world::{Asked, Over, TOO_LONG, World};

const META: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"roots":{}}"#;

impl World {
    pub fn step(&mut self, step: Step) -> Result<(), Broken> {
        self.note(|| format!("{step:?}"));
        match step {
            Step::Request(method, id, modern) => self.request(method, id.into(), modern, ""),
            Step::Return(n, id, all) => self.comes_back(n, id.into(), all),
            Step::ReturnForged(id) => {
                let state = r#","requestState":"forged""#;
                self.request(Method::Call, id.into(), true, state)
            }
            Step::Cancel(n) => self.cancel(n),
            Step::CancelUnknown => {
                self.client(cancelled("99"))?;
                self.client(cancelled("{}"))
            }
            Step::Notification => {
                self.client(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.into())
            }
            Step::ClientAnswer(n, well) => self.client_answers(n, well),
            Step::Junk => {
                self.client("junk".into())?;
                self.client(r#"{"jsonrpc":"2.0"}"#.into())
            }
            Step::Unreadable(id, long) => self.unreadable(id.into(), long),
            Step::Batch(id) => self.batch(id.into()),
            Step::Answer(n, how) => match self.nth_handler(n) {
                Some(ticket) => self.answer(ticket, how),
                None => Ok(()),
            },
            Step::AnswerAgain(n) => match nth(&self.done, n) {
                Some(ticket) => {
                    self.see("late answer");
                    self.handle(Input::Answer(ticket, result(ticket)))
                }
                None => Ok(()),
            },
            Step::Ask(n, count) => match self.nth_handler(n) {
                Some(ticket) => self.ask(Some(ticket), count),
                None => Ok(()),
            },
            Step::AskAlone => self.ask(None, 1),
            Step::Unask(n) => self.unask(n),
            Step::Notices(n) => self.notices(n),
            Step::Changes => {
                self.handle(Input::Changed(List::Tools))?;
                self.handle(Input::Updated { uri: "u".into() })
            }
            Step::Tick => self.tick_until(None).map(drop),
            Step::Wait(ms) => self.advance(Duration::from_millis(ms.into())),
            Step::Sleep(s) => {
                self.slept = true;
                self.now = self.now + Duration::from_secs(s.into());
                Ok(())
            }
            Step::Close(broken) => self.close(broken),
            Step::Shutdown => self.shutdown(),
        }
    }

    /// Whether the step means anything now.
    pub fn applies(&self, step: Step) -> bool {
        match step {
            Step::Answer(n, _) | Step::Ask(n, _) => self.handlers.len() > n.into(),
            Step::Cancel(n) => self.asked.len() > n.into(),
            Step::Return(n, ..) => self.states.len() > n.into(),
            Step::ClientAnswer(n, _) => self.questions.len() > n.into(),
            Step::Tick => self.server.deadline().is_some(),
            Step::Close(_) => !matches!(self.over, Over::Broken),
            _ => true,
        }
    }

    fn nth_handler(&self, n: u8) -> Option<Ticket> {
        let count = self.handlers.len();
        self.handlers
            .keys()
            .nth(usize::from(n) % count.max(1))
            .copied()
    }

    /// The line of a request, entered into the books.
    fn line(&mut self, method: Method, id: u64, modern: bool, more: &str) -> String {
        let token = self.asked.len() as u64;
        let meta = match modern {
            true => format!(r#"{{"progressToken":{token},{META}}}"#),
            false => format!(r#"{{"progressToken":{token}}}"#),
        };
        let params = match method {
            Method::Initialize => {
                r#","protocolVersion":"2025-11-25","capabilities":{"roots":{},"elicitation":{}}"#
            }
            Method::Listen => {
                r#","notifications":{"toolsListChanged":true,"resourceSubscriptions":["u"]}"#
            }
            Method::Subscribe => r#","uri":"u""#,
            Method::SetLevel => r#","level":"debug""#,
            _ => r#","name":"t""#,
        };
        match self.open(id) {
            Some(_) => self.owed.push(id),
            None => {
                self.asked.push(Asked {
                    id,
                    method,
                    token,
                    open: true,
                    cancelled: false,
                });
            }
        }
        let name = method.name();
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{name}","params":{{"_meta":{meta}{params}{more}}}}}"#
        )
    }

    /// A driver reads no more after the end of input, nor when it is asked not to, but for one
    /// frame in three that was on its way.
    fn may_send(&self) -> bool {
        !self.deaf && (self.server.wants_input() || self.asked.len().is_multiple_of(3))
    }

    fn request(&mut self, method: Method, id: u64, modern: bool, more: &str) -> Result<(), Broken> {
        if !self.may_send() {
            return Ok(());
        }
        let fresh = self.open(id).is_none();
        let line = self.line(method, id, modern, more);
        self.client(line)?;
        let at_once = !method.is_handled() && method != Method::Listen;
        if fresh && at_once && self.open(id).is_some() {
            return Err(format!("3: {method:?} was not answered at once"));
        }
        Ok(())
    }

    /// The client comes back with a state.
    fn comes_back(&mut self, n: u8, id: u64, all: bool) -> Result<(), Broken> {
        let states: Vec<_> = self
            .states
            .iter()
            .map(|(state, of)| (state.clone(), *of))
            .collect();
        let Some((state, ticket)) = nth(&states, n) else {
            return Ok(());
        };
        if !self.may_send() {
            return Ok(());
        }
        let newest = self.states.iter().rev().find(|(_, of)| *of == ticket);
        let good = newest.is_some_and(|(newest, _)| *newest == state)
            && self
                .handlers
                .get(&ticket)
                .is_some_and(|h| h.parked.is_some())
            && self.open(id).is_none();
        let responses: Vec<String> = self
            .questions
            .iter()
            .filter(|(_, q)| all && q.within == Some(ticket))
            .map(|(id, _)| format!(r#""ask-{id}":{{}}"#))
            .collect();
        let more = format!(
            r#","requestState":"{state}","inputResponses":{{{}}}"#,
            responses.join(",")
        );
        let ending = self.over != Over::No;
        let line = self.line(Method::Call, id, true, &more);
        if good && !ending {
            // From now on it answers this one.
            let n = self.open(id);
            if let Some(handler) = self.handlers.get_mut(&ticket) {
                handler.asked = n;
                handler.parked = None;
            }
            self.see("resumed");
        }
        self.client(line)
    }

    fn cancel(&mut self, n: u8) -> Result<(), Broken> {
        let ids: Vec<u64> = self.asked.iter().map(|a| a.id).collect();
        let Some(id) = nth(&ids, n) else {
            return Ok(());
        };
        if self.deaf {
            return Ok(());
        }
        if let Some(n) = self.open(id) {
            let asked = &mut self.asked[n];
            asked.open = false;
            asked.cancelled = true;
            let handler = self.handlers.values_mut().find(|h| h.asked == Some(n));
            let running = handler.is_some();
            if let Some(handler) = handler {
                handler.asked = None;
            }
            if self.asked[n].method == Method::Listen {
                self.see("stream cancelled");
            } else if !running {
                self.see("cancelled while waiting");
            }
        }
        self.client(cancelled(&id.to_string()))
    }

    fn client_answers(&mut self, n: u8, well: bool) -> Result<(), Broken> {
        let known: Vec<u64> = self.questions.keys().copied().collect();
        let Some(id) = nth(&known, n).filter(|_| !self.deaf) else {
            return Ok(());
        };
        let due = self
            .questions
            .get(&id)
            .is_some_and(|q| q.open && q.sent.is_some());
        let answer = match well {
            true => r#""result":{}"#,
            false => r#""error":{"code":1,"message":"no"}"#,
        };
        self.client(format!(
            r#"{{"jsonrpc":"2.0","id":"outlive-ask-{id}",{answer}}}"#
        ))?;
        match self.questions.get(&id) {
            Some(question) if due && question.open => {
                Err(format!("3: question {id} was answered and goes on"))
            }
            _ => Ok(()),
        }
    }

    fn unreadable(&mut self, id: u64, long: bool) -> Result<(), Broken> {
        if self.deaf {
            return Ok(());
        }
        self.owed.push(id);
        if !long {
            return self.client(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":7}}"#));
        }
        let json = id.to_string();
        self.frame(Frame::TooLong(TooLong {
            id: Id::read(json.as_bytes()),
            id_json: json.into(),
            has_method: true,
            len: TOO_LONG,
        }))
    }

    fn batch(&mut self, id: u64) -> Result<(), Broken> {
        if !self.may_send() {
            return Ok(());
        }
        let methods = [Method::Call, Method::Ping, Method::Call];
        let lines: Vec<String> = (id..)
            .zip(methods)
            .map(|(id, method)| self.line(method, id, true, ""))
            .collect();
        self.client(format!("[{}]", lines.join(",")))
    }

    pub(super) fn answer(&mut self, ticket: Ticket, how: u8) -> Result<(), Broken> {
        let answer = match how {
            0 => Answer::Error(RpcError::new(-1, "no")),
            1 => Answer::Dropped,
            2 => Answer::Panicked("ouch".into()),
            _ => result(ticket),
        };
        let asked = self.handlers.get(&ticket).and_then(|h| h.asked);
        let heard = asked.is_some_and(|n| self.asked[n].open) && self.over != Over::Broken;
        self.leaving = Some(ticket);
        self.handle(Input::Answer(ticket, answer))?;
        match asked {
            Some(n) if heard && self.asked[n].open => Err(format!(
                "1: {:?} was answered and did not hear it",
                self.asked[n]
            )),
            _ => Ok(()),
        }
    }

    fn ask(&mut self, within: Option<Ticket>, count: u8) -> Result<(), Broken> {
        let mut asks = Vec::new();
        for _ in 0..count {
            let id = self.next_question;
            self.next_question += 1;
            self.questions.insert(
                id,
                super::world::Question {
                    within,
                    open: true,
                    taken_back: false,
                    sent: None,
                    withdrawn: 0,
                },
            );
            asks.push(Ask {
                id: AskId(id),
                method: ["roots/list", "elicitation/create"][id as usize % 2].into(),
                params: "{}".into(),
                key: None,
            });
        }
        if let Some(handler) = within.and_then(|ticket| self.handlers.get_mut(&ticket)) {
            handler.has_asked = true;
        }
        self.handle(Input::Ask { within, asks })
    }

    fn unask(&mut self, n: u8) -> Result<(), Broken> {
        let known: Vec<u64> = self.questions.keys().copied().collect();
        let Some(id) = nth(&known, n) else {
            return Ok(());
        };
        if let Some(question) = self.questions.get_mut(&id).filter(|q| q.open) {
            question.taken_back = true;
            question.open = false;
        }
        self.handle(Input::Unask(AskId(id)))
    }

    fn notices(&mut self, n: u8) -> Result<(), Broken> {
        let mut tickets: Vec<Ticket> = self.handlers.keys().copied().collect();
        tickets.extend(self.done.last());
        let Some(ticket) = nth(&tickets, n) else {
            return Ok(());
        };
        let within = Some(ticket);
        self.handle(Input::Progress {
            ticket,
            progress: self.now.since_start().as_secs_f64(),
            total: None,
            message: None,
        })?;
        self.handle(Input::Log {
            within,
            level: Level::Error,
            logger: None,
            data: "1".into(),
        })?;
        self.handle(Input::Notify {
            within,
            method: "notifications/x".into(),
            params: "{}".into(),
        })
    }

    pub(super) fn close(&mut self, broken: bool) -> Result<(), Broken> {
        if self.closed {
            return Ok(());
        }
        let kind = match broken {
            true => CloseKind::BrokenPipe,
            false => CloseKind::Eof,
        };
        self.deaf = true;
        if self.over == Over::No {
            // A stream ends with the connection, without a word.
            for asked in &mut self.asked {
                asked.open &= asked.method != Method::Listen;
            }
        }
        match (broken, self.over) {
            (true, Over::No | Over::Input | Over::Shutdown) => self.over = Over::Broken,
            (false, Over::No) => {
                self.over = Over::Input;
                self.input_ended = self.now;
            }
            _ => {}
        }
        self.handle(Input::Closed(kind))
    }

    pub(super) fn shutdown(&mut self) -> Result<(), Broken> {
        self.shutdowns += 1;
        if matches!(self.over, Over::No | Over::Input) && !self.may_have_drained() {
            self.over = Over::Shutdown;
        }
        self.handle(Input::Shutdown)
    }
}

fn result(ticket: Ticket) -> Answer {
    Answer::Result(format!(r#"{{"ticket":"{ticket}"}}"#).into())
}

fn cancelled(id: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
    )
}

/// The n-th newest, round and round.
fn nth<T: Clone>(all: &[T], n: u8) -> Option<T> {
    let back = usize::from(n) % all.len().max(1);
    all.iter().rev().nth(back).cloned()
}
