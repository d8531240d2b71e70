//! What comes out of the server, held against the books.

use outlive_core::error::Error;
use outlive_core::server::{CancelReason, Request, Ticket};
use serde_json::Value;

use crate::world::Broken;

use super::schedule::Method;
use super::world::{Handler, Over, World};

impl World {
    /// The client gets a line.
    pub(super) fn sent(&mut self, line: &[u8]) -> Result<(), Broken> {
        if line.contains(&b'\n') {
            return Err("1: a message of two lines".into());
        }
        let line: Value = serde_json::from_slice(line).map_err(|e| format!("1: no JSON: {e}"))?;
        if self.over == Over::Broken {
            return Err(format!("10: sent to nobody: {line}"));
        }
        match line["method"].as_str() {
            None => self.answered(&line),
            Some("notifications/cancelled") => self.withdrawn(&line["params"]["requestId"]),
            Some(_) if line.get("id").is_some() => self.question_sent(&line["id"]),
            Some("notifications/progress") => self.progressed(&line["params"]),
            Some(_) => {
                let stream =
                    line["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].as_u64();
                match stream {
                    Some(id)
                        if self
                            .open(id)
                            .is_none_or(|n| self.asked[n].method != Method::Listen) =>
                    {
                        Err(format!("2: a message on no open stream: {line}"))
                    }
                    Some(_) => {
                        if line["method"] == "notifications/subscriptions/acknowledged" {
                            self.see("stream opened");
                        }
                        Ok(())
                    }
                    None => Ok(()),
                }
            }
        }
    }

    /// A response reaches the client.
    fn answered(&mut self, line: &Value) -> Result<(), Broken> {
        let Some(id) = line["id"].as_u64() else {
            return Err(format!("1: an answer to nobody: {line}"));
        };
        let code = line["error"]["code"].as_i64();
        if let Some(at) = self.owed.iter().position(|owed| *owed == id)
            && matches!(code, Some(-32600 | -31008))
        {
            self.see("refused: duplicate");
            self.owed.remove(at);
            return Ok(());
        }
        let Some(n) = self.open(id) else {
            let before = self.asked.iter().rfind(|a| a.id == id);
            return match before {
                Some(a) if a.cancelled => {
                    Err(format!("2: answered after its cancellation: {line}"))
                }
                _ => Err(format!("1: a second answer: {line}")),
            };
        };
        self.asked[n].open = false;
        self.content(n, line)?;
        match code {
            Some(-31002) if !self.crowded && self.asked[n].method.is_handled() => {
                return Err(format!("7: refused while there was room: {line}"));
            }
            Some(-31002) => self.see("refused: overloaded"),
            Some(-31003) => self.see("timeout"),
            Some(-31005) => self.see("refused: shutting down"),
            Some(-32602)
                if line["error"]["message"]
                    .as_str()
                    .is_some_and(|m| m.contains("requestState")) =>
            {
                self.see("refused: unknown state");
            }
            _ => {}
        }
        if self.asked[n].method == Method::Listen && code.is_none() {
            self.see("stream ended");
        }
        Ok(())
    }

    /// What a handler says reaches the request it was started for, or came back for, and no other.
    fn content(&mut self, n: usize, line: &Value) -> Result<(), Broken> {
        let of = self.handlers.iter_mut().find(|(_, h)| h.asked == Some(n));
        let result = &line["result"];
        if result["resultType"] == "input_required" {
            let Some((ticket, handler)) = of else {
                return Err(format!("1: a question of no handler: {line}"));
            };
            let ticket = *ticket;
            handler.asked = None;
            handler.parked = Some(self.now);
            let state = result["requestState"].as_str().unwrap_or_default();
            if self.states.iter().any(|(known, _)| known == state) {
                return Err(format!("1: a state given twice: {state}"));
            }
            self.see(match self.states.iter().any(|(_, of)| *of == ticket) {
                true => "asked again",
                false => "parked",
            });
            self.states.push((state.into(), ticket));
            return Ok(());
        }
        match (result["ticket"].as_str(), of) {
            // The driver reports the end of a handler before its answer is seen here.
            (Some(said), Some((ticket, handler))) if said == ticket.to_string() => {
                handler.asked = None;
                self.see("answered");
                Ok(())
            }
            (Some(said), _) => Err(format!("1: the answer of {said} went to another: {line}")),
            (None, Some((_, handler))) => {
                handler.asked = None;
                Ok(())
            }
            (None, None) => Ok(()),
        }
    }

    pub(super) fn started(&mut self, ticket: Ticket, request: &Request) -> Result<(), Broken> {
        let id = request.message.id_json();
        let id: u64 = serde_json::from_slice(id).map_err(|e| format!("1: {e}"))?;
        let n = self.open(id).filter(|n| self.asked[*n].method.is_handled());
        let Some(n) = n else {
            return Err(format!("2: a handler for {id}, which nobody waits for"));
        };
        if self.handlers.values().any(|h| h.asked == Some(n)) {
            return Err(format!("1: two handlers for {id}"));
        }
        if self.over == Over::Broken {
            return Err(format!("10: a handler for {id} after the end"));
        }
        let handler = Handler {
            asked: Some(n),
            modern: request.message.is_modern(),
            started: self.now,
            told: None,
            parked: None,
            has_asked: false,
        };
        if self.handlers.insert(ticket, handler).is_some() || self.done.contains(&ticket) {
            return Err(format!("1: ticket {ticket} used twice"));
        }
        Ok(())
    }

    /// A handler is told that nobody waits for it.
    pub(super) fn told(&mut self, ticket: Ticket, reason: &CancelReason) -> Result<(), Broken> {
        let over = self.over;
        let Some(handler) = self.handlers.get_mut(&ticket) else {
            return Err(format!("1: ticket {ticket} is over and was told {reason}"));
        };
        if handler.told.is_some() {
            return Err(format!("2: ticket {ticket} was told twice"));
        }
        handler.told = Some(self.now);
        let parked = handler.parked.take().is_some();
        let asked = handler.asked;
        match reason {
            CancelReason::Client(_) => self.see("cancelled while running"),
            CancelReason::Deadline if parked => self.see("given up while parked"),
            CancelReason::Deadline => {}
            CancelReason::TransportClosed if matches!(over, Over::Input | Over::Broken) => {
                if over == Over::Input && !parked {
                    self.see("drained");
                    // The drain is over: from now on nothing may be sent.
                    self.over = Over::Broken;
                }
                self.leave_unanswered(ticket);
            }
            CancelReason::Shutdown if self.shutdowns > 0 => {}
            _ => {
                return Err(format!(
                    "10: ticket {ticket} was told {reason}, which is not so"
                ));
            }
        }
        if let Some(n) = asked
            && !matches!(
                reason,
                CancelReason::Shutdown | CancelReason::TransportClosed
            )
            && self.asked[n].open
        {
            return Err(format!(
                "1: ticket {ticket} was told {reason}, but the client waits"
            ));
        }
        Ok(())
    }

    /// Nobody is there to be answered.
    fn leave_unanswered(&mut self, ticket: Ticket) {
        if let Some(handler) = self.handlers.get_mut(&ticket) {
            handler.asked = None;
        }
    }

    pub(super) fn dropped(&mut self, ticket: Ticket) -> Result<(), Broken> {
        let Some(handler) = self.handlers.remove(&ticket) else {
            return Err(format!("1: ticket {ticket} is over and was dropped"));
        };
        self.done.push(ticket);
        self.see("dropped");
        match (handler.told, handler.asked) {
            (None, _) => Err(format!("3: ticket {ticket} was dropped without a word")),
            (_, Some(n)) if self.asked[n].open && self.over != Over::Broken => Err(format!(
                "1: ticket {ticket} was dropped, and the client waits"
            )),
            (Some(told), _) if self.now - told < self.policy.grace && self.shutdowns < 2 => Err(
                format!("3: ticket {ticket} was dropped before its grace was over"),
            ),
            _ => Ok(()),
        }
    }

    fn question_sent(&mut self, id: &Value) -> Result<(), Broken> {
        let number = number(id);
        let now = self.now;
        let waiting = number.and_then(|n| self.questions.get_mut(&n));
        let Some(question) = waiting.filter(|q| q.open && q.sent.is_none()) else {
            return Err(format!("1: a request of ours that nobody made: {id}"));
        };
        question.sent = Some(now);
        if let Some(handler) = question.within.and_then(|t| self.handlers.get(&t))
            && handler.modern
        {
            return Err(format!("1: a modern client was sent the request {id}"));
        }
        self.see("question sent");
        Ok(())
    }

    /// The client is told that a request of ours is off, or that a stream has ended.
    fn withdrawn(&mut self, id: &Value) -> Result<(), Broken> {
        if let Some(id) = id.as_u64() {
            let last = self.asked.iter().rfind(|a| a.id == id);
            return match last {
                Some(a) if a.method == Method::Listen && !a.open && !a.cancelled => Ok(()),
                _ => Err(format!("2: the server cancelled {id}")),
            };
        }
        let question = number(id).and_then(|n| self.questions.get_mut(&n));
        let Some(question) = question.filter(|q| q.sent.is_some()) else {
            return Err(format!("2: {id} was never asked and is off"));
        };
        question.withdrawn += 1;
        if question.withdrawn > 1 {
            return Err(format!("2: {id} was called off twice"));
        }
        self.see("question withdrawn");
        Ok(())
    }

    pub(super) fn question_ends<T>(
        &mut self,
        id: u64,
        answer: &Result<T, Error>,
    ) -> Result<(), Broken> {
        let Some(question) = self.questions.get_mut(&id).filter(|q| q.open) else {
            return Err(format!("1: question {id} ended twice, or never was"));
        };
        question.open = false;
        if question.taken_back {
            return Err(format!("2: question {id} was taken back and answered"));
        }
        match answer {
            Ok(_) => self.see("question answered"),
            Err(Error::Timeout { .. }) => self.see("question timed out"),
            Err(_) => {}
        }
        Ok(())
    }

    fn progressed(&mut self, params: &Value) -> Result<(), Broken> {
        let token = params["progressToken"].as_u64().unwrap_or(u64::MAX);
        let told = params["progress"].as_f64().unwrap_or(f64::NAN);
        let of = self.asked.iter().find(|a| a.token == token);
        if !of.is_some_and(|a| a.open) {
            return Err(format!("2: progress nobody waits for: {params}"));
        }
        match self.progress.insert(token, told) {
            Some(before) if told <= before => Err(format!("1: progress went back: {params}")),
            _ => Ok(()),
        }
    }

    pub(super) fn ended(&mut self) -> Result<(), Broken> {
        self.closed = true;
        self.deaf = true;
        if self.over == Over::No {
            return Err("10: it ended by itself".into());
        }
        let left = |ticket: &&Ticket| Some(**ticket) != self.leaving;
        if let Some(ticket) = self.handlers.keys().find(left) {
            return Err(format!("10: it ended before handler {ticket}"));
        }
        if let Some((id, _)) = self.questions.iter().find(|(_, q)| q.open) {
            return Err(format!("10: it ended before question {id}"));
        }
        let left = self.asked.iter().find(|a| a.open);
        match left {
            Some(left) if self.over == Over::Shutdown => {
                Err(format!("1: it ended before {left:?} was answered"))
            }
            _ => Ok(()),
        }
    }

    /// Whether the time for answers after the end of input may be over.
    pub(super) fn may_have_drained(&self) -> bool {
        let until = self.input_ended + self.policy.drain;
        self.over == Over::Input && (self.slept || self.now >= until)
    }

    /// What must be true at any moment.
    pub(super) fn check(&mut self) -> Result<(), Broken> {
        if self.closed {
            return match self.server.deadline() {
                Some(_) => Err("10: a timer after the end".into()),
                None => Ok(()),
            };
        }
        self.check_bounds()?;
        self.check_times()?;
        let sizes = self.server.sizes();
        // Everybody the client waits for is being dealt with.
        let open = self
            .asked
            .iter()
            .filter(|a| a.open && a.method.is_handled())
            .count();
        let working = self.handlers.values().filter(|h| h.asked.is_some()).count();
        if self.over != Over::Broken && !self.may_have_drained() && open != working + sizes.queued.0
        {
            return Err(format!("3: {open} wait for {working} handlers, {sizes:?}"));
        }
        let parked = self
            .handlers
            .values()
            .filter(|h| h.parked.is_some())
            .count();
        if (sizes.busy, sizes.parked) != (self.handlers.len() - parked, parked) {
            return Err(format!(
                "7: {} handlers, {parked} parked, but {sizes:?}",
                self.handlers.len()
            ));
        }
        if sizes.queued.0 > 0 && sizes.busy == 0 {
            return Err("3: requests wait, and no handler runs".into());
        }
        let roomy =
            sizes.busy < self.policy.concurrency && sizes.bytes + 1000 <= self.policy.running_bytes;
        if sizes.queued.0 > 0 && roomy {
            return Err(format!(
                "3: a request waits although there is room: {sizes:?}"
            ));
        }
        Ok(())
    }

    fn check_bounds(&mut self) -> Result<(), Broken> {
        let sizes = self.server.sizes();
        let policy = &self.policy;
        let longest = 1000;
        let within = sizes.busy <= policy.concurrency + policy.parked
            && sizes.parked <= policy.parked
            && sizes.bytes <= policy.running_bytes + longest * (1 + policy.parked)
            && sizes.queued.0 <= policy.queue
            && sizes.queued.1 < policy.queue_bytes + longest
            && sizes.asks.0 <= policy.asks
            && sizes.asks.1 < policy.queue_bytes + longest
            && sizes.tombstones <= policy.tombstones
            && sizes.subscriptions.0 <= policy.subscriptions
            && sizes.subscriptions.1 <= policy.queue_bytes
            && sizes.timers <= sizes.busy + sizes.parked + sizes.asks.0;
        if !within {
            return Err(format!("7: over a bound: {sizes:?}"));
        }
        if self.server.wants_input() && self.deaf {
            return Err("10: it reads after the end of input".into());
        }
        if !self.server.wants_input() && !self.deaf {
            self.see("not read");
            if self.server.deadline().is_none() {
                return Err("3: it stopped reading and will not look again".into());
            }
            let crowded =
                sizes.queued.0 >= self.policy.queue || sizes.queued.1 >= self.policy.queue_bytes;
            if !crowded {
                return Err(format!("3: it stopped reading without need: {sizes:?}"));
            }
        }
        Ok(())
    }

    /// Nothing outlives its time. After a sleep the server's clock is not ours.
    fn check_times(&self) -> Result<(), Broken> {
        if self.slept {
            return Ok(());
        }
        for (ticket, handler) in &self.handlers {
            if let Some(told) = handler.told
                && self.now > told + self.policy.grace
            {
                return Err(format!("3: ticket {ticket} has outlived its grace"));
            }
            if let Some(parked) = handler.parked
                && self.now > parked + self.policy.parked_for
            {
                return Err(format!("3: ticket {ticket} is parked for ever"));
            }
            if let Some(deadline) = self.policy.deadline
                && !handler.has_asked
                && handler.told.is_none()
                && self.now > handler.started + deadline
            {
                return Err(format!("3: ticket {ticket} has outlived its deadline"));
            }
        }
        for (id, question) in &self.questions {
            if let (Some(sent), Some(timeout)) = (question.sent, self.policy.ask_timeout)
                && question.open
                && self.now > sent + timeout
            {
                return Err(format!("3: question {id} has outlived its time"));
            }
            let over = |t| match self.handlers.get(&t) {
                Some(handler) => handler.told.is_some(),
                None => true,
            };
            if question.open && question.within.is_some_and(over) {
                return Err(format!("3: question {id} has outlived its request"));
            }
        }
        Ok(())
    }
}

/// The number of a request of ours.
pub(super) fn number(id: &Value) -> Option<u64> {
    id.as_str()?.strip_prefix("outlive-ask-")?.parse().ok()
}
