//! Opaque tokens: who is asked about, and what is remembered of the answers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{
    Introspection, Output, Question, Refusal, Standing, Ticket, TokenId, Verdict, Verifier,
};
use crate::time::Time;

/// What its issuer has said of a token.
#[derive(Clone, Debug)]
struct Remembered {
    said: Introspection,
    until: Time,
}

/// All that is known about opaque tokens, and being asked.
#[derive(Debug, Default)]
pub(super) struct Lookups {
    remembered: BTreeMap<TokenId, Remembered>,
    /// In the order in which they were remembered: the oldest gives way.
    order: VecDeque<TokenId>,
    running: BTreeSet<TokenId>,
    /// Those that wait for a place among them.
    queued: VecDeque<TokenId>,
    standing: Standing,
}

impl Lookups {
    pub(super) fn remembered(&self) -> usize {
        self.remembered.len()
    }

    pub(super) fn is_asking(&self, token: &TokenId) -> bool {
        self.running.contains(token) || self.queued.contains(token)
    }

    fn forget(&mut self, token: &TokenId) {
        if self.remembered.remove(token).is_some() {
            self.order.retain(|it| it != token);
        }
    }
}

impl Verifier {
    pub(super) fn ask_opaque(&mut self, ticket: Ticket, token: TokenId) {
        let now = self.now.time;
        if let Some(verdict) = self.recall(&token) {
            return self.answer(ticket, verdict);
        }
        let lookups = &self.lookups;
        let is_asked = lookups.is_asking(&token);
        if !is_asked && !lookups.standing.is_due(now) {
            let after = lookups.standing.not_before - now;
            return self.answer(ticket, Verdict::Unavailable(after));
        }
        self.wait(ticket, Question::Opaque(token));
        if !is_asked && self.waiting.contains_key(&ticket) {
            self.lookups.queued.push_back(token);
            self.ask_next();
        }
    }

    /// What is remembered of a token, if that is still good.
    fn recall(&mut self, token: &TokenId) -> Option<Verdict> {
        let found = self.lookups.remembered.get(token)?;
        let verdict = match &found.said {
            _ if found.until <= self.now.time => None,
            Introspection::Inactive => Some(Verdict::Refused(Refusal::Inactive)),
            Introspection::Active(claims) => {
                match claims.is_alive(self.now.wall, self.policy.leeway) {
                    true => Some(Verdict::Active(claims.clone())),
                    // It does not become good again.
                    false => Some(Verdict::Refused(Refusal::Expired)),
                }
            }
        };
        if verdict.is_none() {
            self.lookups.forget(token);
        }
        verdict
    }

    /// Asks about those that wait, as far as there are places.
    fn ask_next(&mut self) {
        while self.lookups.running.len() < self.policy.lookups {
            let Some(token) = self.lookups.queued.pop_front() else {
                return;
            };
            self.lookups.running.insert(token);
            self.out.push_back(Output::Introspect(token));
        }
    }

    pub(super) fn introspected(&mut self, token: TokenId, said: Option<Introspection>) {
        if !self.lookups.running.remove(&token) {
            return;
        }
        let now = self.now.time;
        match said {
            None => {
                self.lookups.standing.failed(&self.policy, now);
                // Nobody else is kept waiting for it.
                self.lookups.queued.clear();
                let after = self.lookups.standing.not_before - now;
                let running = self.lookups.running.clone();
                let unasked = |question: &Question| match question {
                    Question::Opaque(token) => !running.contains(token),
                    Question::Key { .. } => false,
                };
                for (ticket, _) in self.take_waiting(|it| unasked(&it.question)) {
                    self.answer(ticket, Verdict::Unavailable(after));
                }
            }
            Some(said) => {
                self.lookups.standing.answered(now);
                self.remember(token, said.clone());
                let asked = Question::Opaque(token);
                for (ticket, _) in self.take_waiting(|it| it.question == asked) {
                    let verdict = match &said {
                        Introspection::Active(claims)
                            if claims.is_alive(self.now.wall, self.policy.leeway) =>
                        {
                            Verdict::Active(claims.clone())
                        }
                        Introspection::Active(_) => Verdict::Refused(Refusal::Expired),
                        Introspection::Inactive => Verdict::Refused(Refusal::Inactive),
                    };
                    self.answer(ticket, verdict);
                }
                self.ask_next();
            }
        }
    }

    fn remember(&mut self, token: TokenId, said: Introspection) {
        let time = match said {
            Introspection::Active(_) => self.policy.active,
            Introspection::Inactive => self.policy.inactive,
        };
        let until = self.now.time + time;
        let lookups = &mut self.lookups;
        lookups.forget(&token);
        while lookups.remembered.len() >= self.policy.remembered {
            let Some(oldest) = lookups.order.pop_front() else {
                return;
            };
            lookups.remembered.remove(&oldest);
        }
        lookups.remembered.insert(token, Remembered { said, until });
        lookups.order.push_back(token);
    }

    /// Nobody may be waiting for what was asked: what has not been asked yet is not asked any more.
    pub(super) fn forgotten(&mut self, question: &Question) {
        let Question::Opaque(token) = question else {
            return;
        };
        if !self.waiting.values().any(|it| it.question == *question) {
            self.lookups.queued.retain(|it| it != token);
        }
    }
}
