//! Somebody has to log in at the server, and the host is told, if its client can show a link to a person.
//!
//! A client says so when it greets (`elicitation.url`, 2025-11-25). It is asked once for each login, as if the server
//! had asked. Whatever it answers, calls wait as long as they would without it; but if the person declines, nothing is
//! waited for. That the link was dismissed, or could not be shown, is no answer of a person: the link is also in the
//! log, and in the error of a call that has waited long enough. How a host is told that cannot be asked (2026-07-28),
//! `login_round` says.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::link::LinkOrder;
use crate::login::LoginStatus;
use crate::message::{Id, Message};

use super::link::Ask;
use super::{Ending, Output, Session};
use crate::time::Time;

/// A link that is longer than this is not shown by the host.
pub(super) const LONGEST_LINK: usize = 16 << 10;

/// A login that somebody has to make.
#[derive(Clone, Debug)]
pub(super) struct LoginWanted {
    pub(super) number: u64,
    pub(super) url: String,
    /// What a person is told.
    pub(super) words: String,
}

/// A login that the host was told of.
#[derive(Clone, Debug)]
pub(super) struct LoginAsk {
    number: u64,
    /// The id of our request, until the host has answered it and afterwards.
    id: Id,
}

impl LoginAsk {
    /// What the client knows the elicitation by.
    fn elicitation_id(&self) -> String {
        format!("outlive-login-{:016x}", self.number)
    }
}

impl Session {
    /// Somebody has to log in, or not any more.
    pub(super) fn login_status(&mut self, now: Time, status: LoginStatus) {
        match status {
            LoginStatus::Quiet => {}
            LoginStatus::Wanted { number, link, code } => {
                let code = code.map(|it| format!(" Enter the code {it} there."));
                let words = format!(
                    "The server wants you to log in. What was called waits for it.{}",
                    code.unwrap_or_default()
                );
                self.note_wanted(number, &link, &words);
                self.login_wanted(number, &link, &words);
                self.tell_by_answer(now);
            }
            LoginStatus::Granted => self.login_over(true),
            LoginStatus::Failed => self.login_over(false),
        }
    }

    fn note_wanted(&mut self, number: u64, url: &str, words: &str) {
        let Some(link) = &mut self.link else { return };
        if link.login_wanted.as_ref().map(|it| it.number) == Some(number) {
            return;
        }
        link.login_wanted = Some(LoginWanted {
            number,
            url: url.to_owned(),
            words: words.to_owned(),
        });
    }

    fn login_wanted(&mut self, number: u64, url: &str, words: &str) {
        let known = |ask: &LoginAsk| ask.number == number;
        let told = self.link.as_ref().and_then(|link| link.login.as_ref());
        if told.is_some_and(known) {
            return;
        }
        self.withdraw_login(false);
        let may_tell = self.ending == Ending::No && !self.host_gone && self.shows_links();
        let most = self.policy.limits.asks;
        let Some(link) = self.link.as_mut().filter(|link| link.is_alive()) else {
            return;
        };
        if !may_tell || link.asks.len() >= most || url.len() > LONGEST_LINK {
            return;
        }
        let taken: Vec<Id> = link.asks.keys().cloned().collect();
        let id = link.fresh_id(|id| taken.contains(id));
        let ask = Ask {
            server_id: Id::Null,
            server_id_json: Bytes::new(),
            token: None,
            of_a_person: true,
            login: true,
        };
        link.asks.insert(id.clone(), ask);
        let login = LoginAsk {
            number,
            id: id.clone(),
        };
        let params = json!({
            "mode": "url",
            "elicitationId": login.elicitation_id(),
            "url": url,
            "message": words,
        });
        link.login = Some(login);
        let id = id.to_json();
        let params = params.to_string();
        let ask = Message::request(id.as_bytes(), "elicitation/create", params.as_bytes());
        self.tell_host(ask);
    }

    /// The login is over.
    fn login_over(&mut self, granted: bool) {
        if let Some(link) = &mut self.link {
            link.login_wanted = None;
        }
        self.withdraw_login(granted);
    }

    /// Tells a host that was asked that the login is over.
    fn withdraw_login(&mut self, granted: bool) {
        let Some(link) = &mut self.link else { return };
        let Some(login) = link.login.take() else {
            return;
        };
        let unanswered = link.asks.remove(&login.id).is_some();
        if self.host_gone {
            return;
        }
        if unanswered {
            let params = format!(
                r#"{{"requestId":{},"reason":"The login is over."}}"#,
                login.id.to_json()
            );
            self.tell_host(Message::notification(
                "notifications/cancelled",
                params.as_bytes(),
            ));
        }
        if granted {
            let params = json!({"elicitationId": login.elicitation_id()}).to_string();
            let complete = "notifications/elicitation/complete";
            self.tell_host(Message::notification(complete, params.as_bytes()));
        }
    }

    /// The host has answered: only a person who declines changes anything.
    pub(super) fn login_answered(&mut self, answer: &Message) {
        let result = answer.result().unwrap_or(b"null");
        let result: Value = serde_json::from_slice(result).unwrap_or_default();
        if result["action"] == "decline"
            && let Some(link) = self.link.as_ref().filter(|link| link.login.is_some())
        {
            let order = Output::Link(link.generation, LinkOrder::DeclineLogin);
            self.out.push_back(order);
        }
    }

    /// Whether the host has greeted, and has said that it can show a person a link.
    fn shows_links(&self) -> bool {
        let greeting = self.memory.initialize.as_ref();
        let params = greeting.and_then(Message::params).unwrap_or(b"null");
        let params: Value = serde_json::from_slice(params).unwrap_or_default();
        self.memory.initialized.is_some()
            && params["capabilities"]["elicitation"]["url"].is_object()
    }
}
