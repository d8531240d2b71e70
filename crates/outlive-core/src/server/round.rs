//! Round trips (2026-07-28, multi round-trip requests): what a handler asks of a modern client.
//!
//! The client's request is answered with what is asked for and a state, and its handler is
//! parked. The client sends the request again under another id, with the input and the state, and
//! the handler goes on: its answer goes to the new id. The state is a number nobody can guess; it is
//! used once, and only for a request of the same method and target that comes from the same principal.

use std::collections::BTreeMap;

use bytes::Bytes;
use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::error::{Error, Limit};
use crate::message::Message;
use crate::protocol::method;
use crate::time::Time;

use super::ask::{Ask, AskId, How};
use super::handshake::Introduction;
use super::refusal::ServerRefusal;
use super::request::Ticket;
use super::result::{self, Marks};
use super::table::Place;
use super::{Output, Server};

/// What a request that is sent again brings along.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Return<'a> {
    #[serde(borrow)]
    request_state: Option<&'a RawValue>,
    #[serde(borrow)]
    input_responses: Option<&'a RawValue>,
}

impl Return<'_> {
    /// `None` if this is no request that is sent again. Nobody writes the name with escapes, so a
    /// request without it anywhere need not be read.
    fn read(message: &Message) -> Option<Return<'_>> {
        let params = message.params()?;
        memmem::find(params, b"requestState")?;
        let back: Return<'_> = serde_json::from_slice(params).ok()?;
        back.request_state.is_some().then_some(back)
    }

    fn state(&self) -> Option<String> {
        serde_json::from_str(self.request_state?.get()).ok()
    }

    /// The answers that can be ones: objects.
    fn answers(&self) -> BTreeMap<String, &RawValue> {
        let raw = self.input_responses.map_or("{}", RawValue::get);
        let mut answers: BTreeMap<String, &RawValue> =
            serde_json::from_str(raw).unwrap_or_default();
        answers.retain(|_, answer| answer.get().starts_with('{'));
        answers
    }
}

/// What a request is about: a state is good for no other.
fn target(message: &Message) -> (&str, Option<String>) {
    let target = message.name().or_else(|| message.uri());
    (message.method(), target.map(Into::into))
}

impl Server {
    /// Makes a question part of the next round of a handler.
    pub(super) fn in_round(&mut self, ticket: Ticket, ask: &Ask) -> Result<How, Error> {
        let Some(entry) = self.table.get(ticket) else {
            return Err(Error::CancelledByCaller);
        };
        if !method::may_ask(entry.message.method()) || !method::is_question(&ask.method) {
            let why = "A client of this revision cannot be asked that here.".into();
            return Err(Error::Unsupported { why });
        }
        // One that is parked already takes no other place.
        if entry.place == Place::Running && self.table.parked() >= self.policy.parked {
            let limit = Limit::parked(self.policy.parked);
            return Err(Error::Overloaded { limit });
        }
        let mut key = match &ask.key {
            Some(key) => key.to_string(),
            None => format!("ask-{}", ask.id.0),
        };
        let taken = |key: &str, how: &How| matches!(how, How::Round { key: k, .. } if **k == *key);
        while self.asks.of(ticket).any(|(_, ask)| taken(&key, &ask.how)) {
            key.push('_');
        }
        Ok(How::Round {
            key: key.into(),
            method: ask.method.clone(),
            params: ask.params.clone(),
            told: false,
        })
    }

    /// If a running handler waits for a modern client, its request is answered with what it waits
    /// for.
    pub(super) fn next_round(&mut self, now: Time, ticket: Ticket) {
        let running = self
            .table
            .get(ticket)
            .filter(|entry| entry.place == Place::Running);
        let Some(entry) = running else { return };
        let (message, channel) = (entry.message.clone(), entry.channel);
        let mut questions = Map::new();
        for (_, ask) in self.asks.of(ticket) {
            if let How::Round {
                key,
                method,
                params,
                told,
            } = &mut ask.how
            {
                *told = true;
                let params: Value = serde_json::from_slice(params).unwrap_or_default();
                let question = match params {
                    Value::Object(_) => json!({ "method": method, "params": params }),
                    _ => json!({ "method": method }),
                };
                questions.insert(key.to_string(), question);
            }
        }
        if questions.is_empty() {
            return;
        }
        let state = self.states.draw();
        let result = json!({
            "resultType": "input_required",
            "inputRequests": questions,
            "requestState": state,
        })
        .to_string();
        let marks = Marks::missing(message.method(), result.as_bytes());
        let line = result::response(
            message.id_json(),
            result.as_bytes(),
            marks,
            &self.policy.info,
        );
        self.send(channel, line);
        self.table.park(ticket, &state);
        self.set_due(ticket, Some(now + self.policy.parked_for));
        self.start_waiting(now);
    }

    /// A request that brings a state along goes to the handler that waits for it. `false` if
    /// it brings none.
    pub(super) fn client_returns(
        &mut self,
        now: Time,
        message: &Message,
        introduction: &Introduction,
    ) -> bool {
        if !method::may_ask(message.method()) {
            return false;
        }
        let Some(back) = Return::read(message) else {
            return false;
        };
        let state = back.state().unwrap_or_default();
        let caller = self.table.caller;
        let ticket = self.table.waiting_for(&state).filter(|ticket| {
            let entry = self.table.get(*ticket);
            entry.is_some_and(|it| it.caller == caller && target(&it.message) == target(message))
        });
        match ticket {
            Some(ticket) => self.resume(now, ticket, message, introduction, &back),
            None if self.states.is_anothers(&state) => {
                self.refuse(message, &ServerRefusal::state_of_another());
            }
            None => self.refuse(message, &ServerRefusal::unknown_state()),
        }
        true
    }

    fn resume(
        &mut self,
        now: Time,
        ticket: Ticket,
        message: &Message,
        introduction: &Introduction,
        back: &Return<'_>,
    ) {
        let Some(entry) = self.table.resume(ticket, message.clone(), self.current) else {
            return;
        };
        entry.peer = introduction.peer.clone();
        entry.log_level = introduction.log_level;
        let idle = entry.asks == 0;
        let left = entry.left;
        // If it waits for something, its clock goes on when that has come.
        let due = left.filter(|_| idle).map(|left| now + left);
        self.set_due(ticket, due);
        let answers = back.answers();
        let mut found: Vec<(AskId, Bytes)> = Vec::new();
        for (id, ask) in self.asks.of(ticket) {
            if let How::Round {
                key, told: true, ..
            } = &ask.how
                && let Some(answer) = answers.get(&**key)
            {
                found.push((id, Bytes::copy_from_slice(answer.get().as_bytes())));
            }
        }
        for (id, answer) in found {
            if self.end_ask(now, id).is_some() {
                self.out.push_back(Output::Asked(id, Ok(answer)));
            }
        }
        // What was not answered, or was asked meanwhile, is asked now.
        self.next_round(now, ticket);
    }
}
