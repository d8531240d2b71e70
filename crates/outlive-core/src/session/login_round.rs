//! Somebody has to log in at the server, and a modern host is told by the answer to a call that waits for it.
//!
//! A server of 2026-07-28 asks its client nothing; it answers `input_required`, and the client comes back with what it
//! was asked for (multi round-trip requests). So a call that the server has refused for its credentials, and that waits
//! for others, is answered with the link, if its client can show one. It was not executed, so nothing is lost by that.
//! The client comes back with a state of ours, which the server never sees; from then on the call waits for the login
//! as it would have before.
//!
//! - **One call for each login**: a person is not asked once for each of fifty calls. The others wait.
//! - **Only where the protocol has it**: `tools/call`, `prompts/get`, `resources/read`, with `elicitation.url` among the
//!   capabilities of the request itself. A call that comes back with a state of the server's waits.
//! - **Only a person who declines ends the waiting**, as for hosts that are asked (`login`).
//!
//! Our state is not secret and not protected. Whoever forges one takes our own answers out of a request of theirs, or
//! declines a login that they could decline anyway.

use std::collections::BTreeMap;

use memchr::memmem;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::ledger::Entry;
use crate::link::LinkOrder;
use crate::message::{Id, Message};
use crate::protocol::meta;
use crate::request::Settled;
use crate::time::Time;

use super::login::LONGEST_LINK;
use super::{Ending, Output, Session};

/// What our states begin with.
const STATE: &str = "outlive-login-";
/// What our question is called among those of an answer.
const QUESTION: &str = "outlive-login";

/// The parameters of a request, each as it is written.
type Params = BTreeMap<String, Box<RawValue>>;

impl Session {
    /// A request, by its id on the link, waits there for other credentials.
    pub(super) fn challenged(&mut self, now: Time, id: &Id) {
        if let Some(host_id) = self.request_on_link(id) {
            self.ledger.challenge(&host_id);
            self.tell_by_answer(now);
        }
    }

    /// Answers the first call that waits for a login with the link to it, if none was.
    pub(super) fn tell_by_answer(&mut self, now: Time) {
        let open = self.ending == Ending::No && !self.host_gone;
        let link = self.link.as_ref().filter(|link| open && link.is_alive());
        let wanted = link.and_then(|link| link.login_wanted.as_ref());
        let Some(wanted) = wanted.filter(|it| it.url.len() <= LONGEST_LINK) else {
            return;
        };
        let number = wanted.number;
        if self.login_told == Some(number) {
            return;
        }
        // What was lost on its way before may have been executed then.
        let unexecuted = |entry: &Entry| entry.challenged && entry.deaths == 0;
        let waiting = self.ledger.iter().filter(|(_, entry)| unexecuted(entry));
        let first = waiting
            .filter(|(_, entry)| can_be_told(&entry.message))
            .min_by_key(|(_, entry)| entry.key);
        let Some(id) = first.map(|(id, _)| id.clone()) else {
            return;
        };
        let answer = json!({
            "resultType": "input_required",
            "inputRequests": {QUESTION: {
                "method": "elicitation/create",
                "params": {"mode": "url", "url": wanted.url, "message": wanted.words},
            }},
            "requestState": format!("{STATE}{number:016x}"),
        });
        self.login_told = Some(number);
        self.answer_challenged(now, &id, &answer);
    }

    /// Answers a call that its link has and the server has not.
    fn answer_challenged(&mut self, now: Time, id: &Id, answer: &Value) {
        let Some(entry) = self.ledger.settle(id) else {
            return;
        };
        self.forget_on_link(id, &entry);
        let wire_id = entry.wire_id().unwrap_or(id).clone();
        let params = format!(r#"{{"requestId":{}}}"#, wire_id.to_json());
        if let Some(link) = &mut self.link {
            link.tombstones.insert(wire_id);
        }
        // It goes no further than the link.
        self.tell_link(
            now,
            Message::notification("notifications/cancelled", params.as_bytes()),
        );
        self.observed_end(&entry, Settled::Answered { is_error: false });
        let answer = answer.to_string();
        self.tell_host(Message::response(
            entry.message.id_json(),
            answer.as_bytes(),
        ));
    }

    /// Takes out of a request what is not the server's: our state, and the answer to our question.
    pub(super) fn login_round(&mut self, message: Message) -> Message {
        let params = message.params().unwrap_or_default();
        if memmem::find(params, STATE.as_bytes()).is_none() {
            return message;
        }
        let Ok(mut params) = serde_json::from_slice::<Params>(params) else {
            return message;
        };
        let Some(number) = params.get("requestState").and_then(|it| own_state(it)) else {
            return message;
        };
        params.remove("requestState");
        let answers = params.remove("inputResponses");
        let answers = answers.and_then(|it| serde_json::from_str::<Params>(it.get()).ok());
        let mut answers = answers.unwrap_or_default();
        let answer = answers.remove(QUESTION);
        if let Ok(rest) = serde_json::value::to_raw_value(&answers)
            && !answers.is_empty()
        {
            params.insert("inputResponses".into(), rest);
        }
        let answer = answer.and_then(|it| serde_json::from_str::<Value>(it.get()).ok());
        if answer.unwrap_or_default()["action"] == "decline" {
            self.decline_login(number);
        }
        match serde_json::to_vec(&params) {
            Ok(params) => Message::request(message.id_json(), message.method(), &params),
            Err(_) => message,
        }
    }

    /// The person who was shown the link of this login does not want to log in.
    fn decline_login(&mut self, number: u64) {
        if let Some(link) = self.link.as_ref().filter(|link| link.is_alive())
            && link.login_wanted.as_ref().map(|it| it.number) == Some(number)
        {
            let order = Output::Link(link.generation, LinkOrder::DeclineLogin);
            self.out.push_back(order);
        }
    }
}

/// The number of the login in a state of ours.
fn own_state(state: &RawValue) -> Option<u64> {
    let state: String = serde_json::from_str(state.get()).ok()?;
    u64::from_str_radix(state.strip_prefix(STATE)?, 16).ok()
}

/// Whether a call may be answered with a question, and its client shows links.
fn can_be_told(message: &Message) -> bool {
    if !matches!(
        message.method(),
        "tools/call" | "prompts/get" | "resources/read"
    ) {
        return false;
    }
    let params = message.params().unwrap_or_default();
    let Ok(params) = serde_json::from_slice::<Params>(params) else {
        return false;
    };
    let first = !params.contains_key("requestState") && !params.contains_key("inputResponses");
    let about = params.get("_meta").map(|it| it.get()).unwrap_or("null");
    let about: Value = serde_json::from_str(about).unwrap_or_default();
    first
        && about[meta::PROTOCOL_VERSION].is_string()
        && about[meta::CLIENT_CAPABILITIES]["elicitation"]["url"].is_object()
}
