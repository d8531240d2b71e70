//! A modern server wants to know something before it goes on: the client is asked, and the request is sent again.
//!
//! The server has let go of the request when it says so, and knows it again by what it was answered and by the state
//! that is carried back to it (2026-07-28, multi round-trip requests). Rounds are bounded in number and in time: nobody
//! else would end a request whose client does not answer.

use std::collections::BTreeMap;
use std::time::Duration;

use memchr::memmem;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::gateway::TargetId;
use crate::message::{Id, Message};
use crate::protocol::{code, method};
use crate::server::RpcError;
use crate::server::refusal::ServerRefusal;
use crate::time::Time;

use super::{Json, Lifted, question_id};
use crate::router::Router;

/// How often the server may want to know more before it goes on with a request.
const MOST_ROUNDS: u32 = 8;

/// A request that the server wants again without asking anything is sent after this time, then twice as long each time.
const PAUSE: Duration = Duration::from_millis(100);

/// What a server wants to know before it goes on.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InputRequired {
    result_type: String,
    #[serde(default)]
    input_requests: BTreeMap<String, Question>,
    request_state: Option<Json>,
}

/// One of the things that it wants to know.
#[derive(Debug, Deserialize)]
struct Question {
    method: String,
    params: Option<Json>,
}

impl InputRequired {
    /// What a result asks for; `None` if it is a whole one.
    pub(super) fn read(result: &[u8]) -> Option<InputRequired> {
        const KIND: &str = "input_required";
        memmem::find(result, KIND.as_bytes())?;
        let read: InputRequired = serde_json::from_slice(result).ok()?;
        (read.result_type == KIND).then_some(read)
    }
}

/// A request that waits for the client to answer what the server has asked.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) lifted: Lifted,
    /// The questions that are not answered, by the id that they have for the router, and the server's keys of them.
    questions: BTreeMap<Id, String>,
    /// The answers there are, by the server's keys.
    answers: BTreeMap<String, Json>,
    state: Option<Json>,
    /// When it is sent again, or given up if something is not answered.
    pub(super) due: Time,
}

impl Router {
    /// Asks the client what the server wants to know.
    pub(super) fn begin_round(
        &mut self,
        target: TargetId,
        mut lifted: Lifted,
        wanted: InputRequired,
    ) {
        lifted.rounds += 1;
        let mut asked = wanted.input_requests.values();
        let may_ask = method::may_ask(lifted.request.method());
        let odd = !may_ask || asked.any(|it| !method::is_question(&it.method));
        if odd || lifted.rounds > MOST_ROUNDS {
            let why = match odd {
                true => "It asked the client for something that servers may not ask for here",
                false => "It asked for more and more, and the request was given up",
            };
            let sentence = format!(
                "The server did not finish {}. {why}. It may have taken effect.",
                lifted.request.method()
            );
            let error = RpcError::new(code::INTERNAL_ERROR, sentence);
            return self.lower_failure(target, lifted.channel, &lifted.request, &error);
        }
        let wait = match wanted.input_requests.is_empty() {
            true => PAUSE * (1 << (lifted.rounds - 1)),
            false => self.policy.answer_wait,
        };
        let channel = lifted.channel;
        let mut questions = BTreeMap::new();
        for (key, question) in wanted.input_requests {
            let id = question_id(self.number());
            let params = question_params(&question, &id);
            let id_json = id.to_json();
            let ask = Message::request(id_json.as_bytes(), &question.method, params.as_bytes());
            questions.insert(id, key);
            self.lower(target, channel, ask);
        }
        let round = Round {
            lifted,
            questions,
            answers: BTreeMap::new(),
            state: wanted.request_state,
            due: self.now + wait,
        };
        if let Some(uplift) = self.uplift(target) {
            uplift.rounds.push(round);
        }
    }

    /// The client has answered one of the questions, or could not be asked.
    pub(super) fn on_input(&mut self, target: TargetId, answer: &Message) {
        let Some((uplift, id)) = self.uplift(target).zip(answer.id()) else {
            return;
        };
        let mut rounds = uplift.rounds.iter_mut();
        let Some(at) = rounds.position(|round| round.questions.contains_key(id)) else {
            return;
        };
        let round = &mut uplift.rounds[at];
        let key = round.questions.remove(id).unwrap_or_default();
        let given = answer
            .result()
            .and_then(|json| serde_json::from_slice(json).ok());
        match given {
            Some(given) => {
                round.answers.insert(key, given);
                if round.questions.is_empty() {
                    let round = uplift.rounds.remove(at);
                    self.end_round(target, round);
                }
            }
            None => {
                let round = uplift.rounds.remove(at);
                self.withdraw_questions(target, &round);
                let error: Value =
                    serde_json::from_slice(answer.error().unwrap_or_default()).unwrap_or_default();
                let sentence = format!(
                    "{} was not finished: the server wants to know something from the client first, and did not \
                     get it. {}",
                    round.lifted.request.method(),
                    error["message"].as_str().unwrap_or_default()
                );
                let code = error["code"].as_i64().unwrap_or(code::INTERNAL_ERROR);
                let error = RpcError::new(code, sentence);
                let Lifted {
                    channel, request, ..
                } = &round.lifted;
                self.lower_failure(target, *channel, request, &error);
            }
        }
    }

    /// Sends a request again if everything is answered; else its time is over.
    pub(super) fn end_round(&mut self, target: TargetId, round: Round) {
        if !round.questions.is_empty() {
            self.withdraw_questions(target, &round);
            let request = &round.lifted.request;
            let refusal = ServerRefusal::timeout(request.method(), self.policy.answer_wait);
            return self.lower_failure(target, round.lifted.channel, request, &refusal.error);
        }
        let mut more = Vec::new();
        if !round.answers.is_empty() {
            let answers = serde_json::to_vec(&round.answers).unwrap_or_default();
            more.extend_from_slice(b"\"inputResponses\":");
            more.extend_from_slice(&answers);
            more.push(b',');
        }
        if let Some(state) = &round.state {
            more.extend_from_slice(b"\"requestState\":");
            more.extend_from_slice(state.get().as_bytes());
            more.push(b',');
        }
        self.send_lifted(target, round.lifted, &more);
    }

    /// Nobody waits for the answers to these questions any more: the client is told.
    pub(super) fn withdraw_questions(&mut self, target: TargetId, round: &Round) {
        for id in round.questions.keys() {
            let params = format!(r#"{{"requestId":{}}}"#, id.to_json());
            let cancel = Message::notification("notifications/cancelled", params.as_bytes());
            self.lower(target, round.lifted.channel, cancel);
        }
    }
}

/// The parameters of a question as a legacy client wants them: one that leads to a web page has an id there.
fn question_params(question: &Question, id: &Id) -> String {
    let given = question.params.as_ref().map_or("{}", |json| json.get());
    let mut params: Value = serde_json::from_str(given).unwrap_or_default();
    let leads_away = question.method == "elicitation/create" && params["mode"] == "url";
    if !leads_away || params.get("elicitationId").is_some() {
        return given.to_owned();
    }
    let Id::Text(id) = id else {
        return given.to_owned();
    };
    params["elicitationId"] = json!(id);
    params.to_string()
}
