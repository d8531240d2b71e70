//! A provider that rotates its keys and fails, clients that show tokens, and what must hold meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use outlive_core::Time;
use outlive_core::verifier::{
    Algorithm, Claims, Edition, Input, Introspection, Jwk, Material, Moment, Output, Question,
    Refusal, Ticket, TokenId, Verdict, Verifier, VerifierPolicy,
};

use crate::random::Dice;

pub type Seen = BTreeSet<&'static str>;

/// What schedules must come across, or they show nothing.
pub const EVERYTHING: [&str; 10] = [
    "a key was known",
    "a key was in the second set",
    "a key was unknown",
    "come again, for a key",
    "come again, for a token",
    "a token was good",
    "a token was remembered",
    "a token was not good",
    "a token had expired",
    "somebody waited too long",
];

#[derive(Debug)]
pub struct Broken {
    pub invariant: u8,
    pub how: String,
}

#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Somebody shows a token that is signed with this key.
    Signed(u8),
    /// Somebody shows this opaque token.
    Opaque(u8),
    /// Somebody goes away.
    Forget(u8),
    /// What was read of the keys, or could not be, arrives.
    KeysArrive(bool),
    /// What was said of a token arrives.
    WordArrives(u8, bool),
    /// The provider has another key, and the oldest is gone if it has many.
    Rotate,
    /// The provider takes back this token, or gives it out again.
    Turn(u8),
    /// Time passes, in tenths of a second.
    Wait(u16),
}

pub fn draw(dice: &mut Dice, count: usize) -> Vec<Step> {
    let step = |dice: &mut Dice| match dice.below(100) {
        0..=24 => Step::Signed(dice.below(10) as u8),
        25..=44 => Step::Opaque(dice.below(8) as u8),
        45..=48 => Step::Forget(dice.below(8) as u8),
        49..=59 => Step::KeysArrive(dice.below(3) > 0),
        60..=71 => Step::WordArrives(dice.below(8) as u8, dice.below(4) > 0),
        72..=75 => Step::Rotate,
        76..=79 => Step::Turn(dice.below(8) as u8),
        _ => Step::Wait(match dice.below(3) {
            0 => dice.below(5) as u16,
            1 => dice.below(60) as u16,
            _ => dice.below(400) as u16,
        }),
    };
    (0..count).map(|_| step(dice)).collect()
}

const POLICY: VerifierPolicy = VerifierPolicy {
    refresh: Duration::from_secs(5),
    stale: Duration::from_secs(30),
    backoff: Duration::from_secs(1),
    backoff_cap: Duration::from_secs(8),
    patience: Duration::from_secs(10),
    waiting: 12,
    lookups: 2,
    remembered: 4,
    active: Duration::from_secs(15),
    inactive: Duration::from_secs(4),
    leeway: Duration::from_secs(2),
};

/// Tokens end at this time on the wall, each at one of its own.
fn end_of(token: u8) -> Duration {
    Duration::from_secs(1000 + 40 * u64::from(token))
}

struct Asked {
    question: Question,
    at: Time,
    /// A key for it was known then.
    known: bool,
}

pub struct World {
    verifier: Verifier,
    now: Duration,
    /// The numbers of the keys that the provider publishes.
    keys: Vec<u8>,
    newest: u8,
    /// Since when keys are being read, and which there were then.
    fetching: Option<(Time, Vec<u8>)>,
    /// When the last one began, whether it failed, and when that was known.
    last_fetch: Option<(Time, Option<(bool, Time)>)>,
    failed_fetches: u32,
    /// When sets of keys have arrived.
    arrived: Vec<Time>,
    failed_words: u32,
    /// The last set that the verifier has got, and when its reading began.
    known: Option<(Vec<u8>, Time)>,
    good: BTreeSet<u8>,
    looking: BTreeSet<u8>,
    /// What was last said of a token, and when.
    said: BTreeMap<u8, (bool, Time)>,
    asked: BTreeMap<Ticket, Asked>,
    tickets: u64,
    pub seen: Seen,
    pub log: Vec<String>,
}

fn key(number: u8) -> Jwk {
    Jwk {
        kid: Some(format!("k{number}").into()),
        algorithm: None,
        material: Material::Ed25519 { x: "".into() },
    }
}

fn id(token: u8) -> TokenId {
    TokenId([token; 32])
}

fn broken<T>(invariant: u8, how: impl Into<String>) -> Result<T, Broken> {
    Err(Broken {
        invariant,
        how: how.into(),
    })
}

impl World {
    pub fn new() -> World {
        World {
            verifier: Verifier::new(POLICY),
            now: Duration::ZERO,
            keys: vec![0],
            newest: 0,
            fetching: None,
            last_fetch: None,
            failed_fetches: 0,
            arrived: Vec::new(),
            failed_words: 0,
            known: None,
            good: (0..6).collect(),
            looking: BTreeSet::new(),
            said: BTreeMap::new(),
            asked: BTreeMap::new(),
            tickets: 0,
            seen: Seen::new(),
            log: Vec::new(),
        }
    }

    fn time(&self) -> Time {
        Time::after(self.now)
    }

    /// The clock on the wall.
    fn wall(&self) -> Duration {
        Duration::from_secs(1000) + self.now
    }

    fn claims(token: u8) -> Arc<Claims> {
        let end = end_of(token).as_secs();
        let json = format!(r#"{{"sub":"{token}","exp":{end}}}"#);
        Arc::new(Claims::read(json.as_bytes()).expect("claims"))
    }

    pub fn step(&mut self, step: Step) -> Result<(), Broken> {
        self.log.push(format!("{:?} {step:?}", self.now));
        match step {
            Step::Signed(number) => {
                // Mostly keys that there are, sometimes one that there never was.
                let kid = match number {
                    9 => 255,
                    _ => self.newest.saturating_sub(number % 4),
                };
                let question = Question::Key {
                    algorithm: Algorithm::EdDsa,
                    kid: Some(format!("k{kid}").into()),
                    tried: None,
                };
                let known = self
                    .known
                    .as_ref()
                    .is_some_and(|(all, _)| all.contains(&kid));
                self.ask(question, known)
            }
            Step::Opaque(token) => self.ask(Question::Opaque(id(token)), false),
            Step::Forget(nth) => {
                let ticket = self.asked.keys().nth(nth.into()).copied();
                match ticket {
                    Some(ticket) => {
                        self.asked.remove(&ticket);
                        self.feed(Input::Forget(ticket))
                    }
                    None => Ok(()),
                }
            }
            Step::KeysArrive(well) => {
                let Some((began, keys)) = self.fetching.take() else {
                    return Ok(());
                };
                self.last_fetch = Some((began, Some((well, self.time()))));
                if well {
                    self.failed_fetches = 0;
                    self.arrived.push(self.time());
                    self.known = Some((keys.clone(), began));
                    let keys = keys.into_iter().map(key).collect();
                    self.feed(Input::Fetched(Some(keys)))
                } else {
                    self.failed_fetches += 1;
                    // A set without keys is no set.
                    let none = self.failed_fetches.is_multiple_of(2).then(Vec::new);
                    self.feed(Input::Fetched(none))
                }
            }
            Step::WordArrives(nth, well) => {
                let token = self.looking.iter().nth(usize::from(nth) % 2).copied();
                let Some(token) = token else {
                    return Ok(());
                };
                self.looking.remove(&token);
                let said = match self.good.contains(&token) {
                    true => Introspection::Active(World::claims(token)),
                    false => Introspection::Inactive,
                };
                match well {
                    true => {
                        self.failed_words = 0;
                        self.said
                            .insert(token, (self.good.contains(&token), self.time()));
                    }
                    false => self.failed_words += 1,
                }
                self.feed(Input::Introspected(id(token), well.then_some(said)))
            }
            Step::Rotate => {
                self.newest = self.newest.saturating_add(1).min(200);
                self.keys.push(self.newest);
                if self.keys.len() > 2 {
                    self.keys.remove(0);
                }
                Ok(())
            }
            Step::Turn(token) => {
                if !self.good.remove(&token) {
                    self.good.insert(token);
                }
                Ok(())
            }
            Step::Wait(tenths) => self.pass(Duration::from_millis(100 * u64::from(tenths))),
        }
    }

    /// Everybody is answered in the end, even if nothing arrives any more.
    pub fn end(&mut self) -> Result<(), Broken> {
        self.pass(POLICY.patience * 2)?;
        match self.asked.is_empty() && self.verifier.waiting() == 0 {
            true => Ok(()),
            false => broken(4, "somebody still waits"),
        }
    }

    fn pass(&mut self, time: Duration) -> Result<(), Broken> {
        let until = self.now + time;
        while let Some(at) = self.verifier.deadline().map(Time::since_start) {
            if at > until {
                break;
            }
            if at < self.now {
                return broken(4, "a deadline in the past");
            }
            self.now = at;
            self.feed(Input::Tick)?;
            if self.verifier.deadline().map(Time::since_start) == Some(at) {
                return broken(4, "a deadline that stays");
            }
        }
        self.now = until;
        self.feed(Input::Tick)
    }

    fn ask(&mut self, question: Question, known: bool) -> Result<(), Broken> {
        let ticket = Ticket(self.tickets);
        self.tickets += 1;
        let at = self.time();
        let asked = Asked {
            question: question.clone(),
            at,
            known,
        };
        self.asked.insert(ticket, asked);
        self.feed(Input::Ask(ticket, question))?;
        match known && self.asked.contains_key(&ticket) {
            true => broken(2, "a key is known, and somebody waits"),
            false => Ok(()),
        }
    }

    fn feed(&mut self, input: Input) -> Result<(), Broken> {
        let now = Moment {
            time: self.time(),
            wall: self.wall(),
        };
        self.verifier.handle(input, now);
        while let Some(output) = self.verifier.poll() {
            self.log.push(format!("{:?}   {output:?}", self.now));
            match output {
                Output::Fetch => self.fetch()?,
                Output::Introspect(TokenId(token)) => {
                    if !self.looking.insert(token[0]) || self.looking.len() > POLICY.lookups {
                        return broken(7, "too many questions");
                    }
                }
                Output::Answer(ticket, verdict) => {
                    let Some(asked) = self.asked.remove(&ticket) else {
                        return broken(4, format!("{ticket:?} was answered twice"));
                    };
                    self.judge(&asked, &verdict)?;
                }
            }
        }
        if self.verifier.waiting() > POLICY.waiting {
            return broken(4, "too many wait");
        }
        match self.verifier.remembered() > POLICY.remembered {
            true => broken(6, "too much is remembered"),
            false => Ok(()),
        }
    }

    fn fetch(&mut self) -> Result<(), Broken> {
        let now = self.time();
        if self.fetching.is_some() {
            return broken(1, "keys are read twice at a time");
        }
        match self.last_fetch {
            Some((began, Some((true, _)))) if now - began < POLICY.refresh => {
                return broken(1, "keys are read too often");
            }
            Some((_, Some((false, ended)))) if now - ended < POLICY.backoff => {
                return broken(1, "the provider has just failed");
            }
            _ => {}
        }
        self.fetching = Some((now, self.keys.clone()));
        self.last_fetch = Some((now, None));
        Ok(())
    }

    /// How many sets of keys have arrived since then.
    fn fetches_since(&self, then: Time) -> usize {
        self.arrived.iter().filter(|at| **at > then).count()
    }

    fn judge(&mut self, asked: &Asked, verdict: &Verdict) -> Result<(), Broken> {
        let now = self.time();
        let waited = now - asked.at;
        if waited > POLICY.patience {
            return broken(4, "somebody waited too long");
        }
        if waited == POLICY.patience {
            self.seen.insert("somebody waited too long");
        }
        match (&asked.question, verdict) {
            (Question::Key { kid, .. }, Verdict::Try(Edition(_), places)) => {
                self.seen.insert("a key was known");
                if waited > Duration::ZERO && self.fetches_since(asked.at) > 1 {
                    self.seen.insert("a key was in the second set");
                }
                let (all, _) = self.known.as_ref().expect("a set");
                let named = |at: &usize| all.get(*at).map(|it| format!("k{it}"));
                match places
                    .iter()
                    .all(|at| named(at).as_deref() == kid.as_deref())
                {
                    true => Ok(()),
                    false => broken(2, "another key"),
                }
            }
            (Question::Key { .. }, Verdict::Refused(Refusal::UnknownKey)) => {
                self.seen.insert("a key was unknown");
                match &self.known {
                    Some((_, began)) if *began >= asked.at => Ok(()),
                    _ => broken(3, "nobody has said so since"),
                }
            }
            (Question::Key { .. }, Verdict::Unavailable(_)) => {
                self.seen.insert("come again, for a key");
                // Either it has failed, or somebody waited long, or too many wait. That keys were read just now is no
                // reason: they are read again before anybody has waited too long.
                let crowded = self.verifier.waiting() >= POLICY.waiting;
                let need = self.failed_fetches > 0 || waited == POLICY.patience || crowded;
                match need && !asked.known {
                    true => Ok(()),
                    false => broken(5, "without need"),
                }
            }
            (Question::Opaque(TokenId(token)), Verdict::Active(_)) => {
                let token = token[0];
                self.seen.insert("a token was good");
                let Some((true, said)) = self.said.get(&token).copied() else {
                    return broken(6, "nobody has said that");
                };
                if said < now {
                    self.seen.insert("a token was remembered");
                }
                let is_late = self.wall() >= end_of(token) + POLICY.leeway;
                match now - said >= POLICY.active || is_late {
                    true => broken(6, "it was remembered for too long"),
                    false => Ok(()),
                }
            }
            (Question::Opaque(TokenId(token)), Verdict::Refused(why)) => {
                let said = self.said.get(&token[0]).copied();
                match (why, said) {
                    (Refusal::Expired, Some((true, _))) => {
                        self.seen.insert("a token had expired");
                        match self.wall() >= end_of(token[0]) + POLICY.leeway {
                            true => Ok(()),
                            false => broken(6, "it has not"),
                        }
                    }
                    (Refusal::Inactive, Some((false, at))) if now - at < POLICY.inactive => {
                        self.seen.insert("a token was not good");
                        Ok(())
                    }
                    _ => broken(6, "nobody has said that it is not good"),
                }
            }
            (Question::Opaque(_), Verdict::Unavailable(_)) => {
                self.seen.insert("come again, for a token");
                let crowded = self.verifier.waiting() >= POLICY.waiting;
                match self.failed_words > 0 || waited == POLICY.patience || crowded {
                    true => Ok(()),
                    false => broken(5, "without need"),
                }
            }
            (question, verdict) => broken(4, format!("{verdict:?} is no answer to {question:?}")),
        }
    }
}
