//! What the demo counts, and whether it adds up.
//!
//! Every request is written down with what the demo claims will become of it, and every answer
//! with the request it names. [`Tally::problems`] compares the two at the end: a demo that only
//! looked right does not pass.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::server::JUNK;
use super::timeline::millis;

/// What the demo claims will become of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It gets a result.
    Result,
    /// It gets an error of this kind from outlive.
    Error(&'static str),
    /// It was cancelled, so it gets nothing.
    Silence,
}

/// An answer as the host read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A result, with its text.
    Result(String),
    /// An error, with the kind outlive gave it (or the code of somebody else's) and its sentence.
    Error {
        /// The kind.
        kind: String,
        /// The sentence.
        message: String,
    },
}

/// A request of the host.
#[derive(Debug)]
pub struct Request {
    /// Its id.
    pub id: u64,
    /// The tool, or the method if it is not a call.
    pub name: &'static str,
    /// Whether it is a `tools/call`.
    pub is_call: bool,
    /// When it was sent.
    pub sent: Instant,
    /// What the demo claims.
    pub claim: Claim,
    /// What came.
    pub answers: Vec<Answer>,
    /// How often the server reported progress on it.
    pub progress: usize,
}

/// What the log of outlive said, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// Servers that became ready.
    pub ready: usize,
    /// Servers that were lost.
    pub lost: usize,
    /// Calls sent again.
    pub retried: usize,
    /// Lines kept from the host because they are no messages.
    pub junk: usize,
    /// Answers kept from the host because their calls were cancelled or had expired.
    pub late: usize,
}

/// What must have happened once the script has been played.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// Servers killed or stopped, each of which is one restart.
    pub faults: usize,
    /// Calls in flight at a death that are safe to repeat.
    pub retried: usize,
}

/// The books of the demo.
#[derive(Debug, Default)]
pub struct Tally {
    requests: Vec<Request>,
    /// What outlive logged.
    pub events: Events,
    /// From each kill to the next server being ready.
    pub recoveries: Vec<Duration>,
    /// From the end of the call that a hung server left unanswered to the next server being ready.
    pub replaced_after: Option<Duration>,
    /// Tools the host got at the start.
    pub handles: usize,
    /// Tools of the start that are gone or different at the end.
    pub handles_lost: usize,
    oddities: Vec<String>,
}

impl Tally {
    /// Writes down a request that is about to be sent; its id is its place in the books.
    pub fn sent(&mut self, name: &'static str, is_call: bool, claim: Claim) -> u64 {
        let id = self.requests.len() as u64 + 1;
        self.requests.push(Request {
            id,
            name,
            is_call,
            sent: Instant::now(),
            claim,
            answers: Vec::new(),
            progress: 0,
        });
        id
    }

    /// A request that was written down.
    pub fn request(&self, id: u64) -> &Request {
        &self.requests[id as usize - 1]
    }

    /// The request that a message from the other side names, if there is one.
    pub fn find(&mut self, id: &Value) -> Option<&mut Request> {
        let id = id.as_u64()?;
        self.requests.iter_mut().find(|request| request.id == id)
    }

    /// Writes down something that should not have happened.
    pub fn odd(&mut self, sentence: impl Into<String>) {
        self.oddities.push(sentence.into());
    }

    fn calls(&self) -> impl Iterator<Item = &Request> {
        self.requests.iter().filter(|request| request.is_call)
    }

    /// How many calls were made.
    pub fn call_count(&self) -> usize {
        self.calls().count()
    }

    /// How many calls got a result.
    pub fn answered(&self) -> usize {
        self.calls()
            .filter(|call| matches!(call.answers[..], [Answer::Result(_)]))
            .count()
    }

    /// How many calls failed, by kind.
    pub fn failed(&self) -> BTreeMap<&str, usize> {
        let mut kinds = BTreeMap::new();
        for call in self.calls() {
            if let [Answer::Error { kind, .. }] = &call.answers[..] {
                *kinds.entry(kind.as_str()).or_default() += 1;
            }
        }
        kinds
    }

    /// How many calls were cancelled and, as it should be, not answered.
    pub fn cancelled(&self) -> usize {
        self.calls()
            .filter(|call| call.claim == Claim::Silence && call.answers.is_empty())
            .count()
    }

    /// How often a new server took the place of a lost one.
    pub fn restarts(&self) -> usize {
        self.events.ready.saturating_sub(1)
    }

    /// Everything that is not as claimed, a sentence each.
    pub fn problems(&self, expected: Expected) -> Vec<String> {
        let mut problems = self.oddities.clone();
        problems.extend(self.requests.iter().filter_map(Request::problem));
        let mut count = |what: &str, seen: usize, claimed: usize| {
            if seen != claimed {
                problems.push(format!("{what}: {seen}, and {claimed} were claimed."));
            }
        };
        count("Servers lost", self.events.lost, expected.faults);
        count("Restarts", self.restarts(), expected.faults);
        count("Calls repeated", self.events.retried, expected.retried);
        count("Lines of junk dropped", self.events.junk, JUNK.len());
        count("Tool handles lost", self.handles_lost, 0);
        let settled = self.answered() + self.failed().values().sum::<usize>() + self.cancelled();
        count(
            "Calls answered once, or cancelled",
            settled,
            self.call_count(),
        );
        problems
    }

    /// The totals as data.
    pub fn to_json(&self) -> Value {
        json!({
            "calls": self.call_count(),
            "answered": self.answered(),
            "failed": self.failed(),
            "cancelled": self.cancelled(),
            "restarts": self.restarts(),
            "repeated": self.events.retried,
            "junk_lines_dropped": self.events.junk,
            "late_answers_dropped": self.events.late,
            "recovery_ms": {
                "median": median(&self.recoveries).map(millis),
        "max": self.recoveries.iter().max().copied().map(millis),
            },
            "hung_server_replaced_ms": self.replaced_after.map(millis),
            "tool_handles": self.handles,
            "tool_handles_lost": self.handles_lost,
        })
    }
}

impl Request {
    /// What is wrong with the answers it got.
    fn problem(&self) -> Option<String> {
        let what = format!("#{} {}", self.id, self.name);
        match (self.claim, &self.answers[..]) {
            (Claim::Silence, []) | (Claim::Result, [Answer::Result(_)]) => None,
            (Claim::Error(claimed), [Answer::Error { kind, .. }]) if kind == claimed => None,
            (Claim::Silence, _) => Some(format!("{what} was cancelled and answered all the same.")),
            (_, []) => Some(format!("{what} was never answered.")),
            (_, [_, _, ..]) => Some(format!("{what} was answered {} times.", self.answers.len())),
            (_, [Answer::Result(text)]) => Some(format!(
                "{what} should have failed and was answered \"{text}\"."
            )),
            (_, [Answer::Error { kind, message }]) => {
                Some(format!("{what} failed with {kind}: {message}"))
            }
        }
    }
}

/// The middle one, or the mean of the middle two.
pub fn median(durations: &[Duration]) -> Option<Duration> {
    let mut sorted = durations.to_vec();
    sorted.sort();
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = sorted[(sorted.len() - 1) / 2];
    Some((lower + upper) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE_KILL: Expected = Expected {
        faults: 1,
        retried: 0,
    };

    fn lost() -> Answer {
        Answer::Error {
            kind: "connection_lost".into(),
            message: "It died.".into(),
        }
    }

    /// A run with one kill in which all went as claimed.
    fn honest() -> Tally {
        let mut tally = Tally {
            events: Events {
                ready: 2,
                lost: 1,
                junk: JUNK.len(),
                ..Events::default()
            },
            ..Tally::default()
        };
        for (claim, answers) in [
            (Claim::Result, vec![Answer::Result("4".into())]),
            (Claim::Error("connection_lost"), vec![lost()]),
            (Claim::Silence, vec![]),
        ] {
            let id = tally.sent("deploy", true, claim);
            tally.find(&json!(id)).unwrap().answers = answers;
        }
        let id = tally.sent("tools/list", false, Claim::Result);
        tally.find(&json!(id)).unwrap().answers = vec![Answer::Result("4 tools".into())];
        tally
    }

    #[test]
    fn an_honest_run_adds_up() {
        let tally = honest();
        assert_eq!(tally.problems(ONE_KILL), Vec::<String>::new());
        let totals = tally.to_json();
        assert_eq!(totals["calls"], 3);
        assert_eq!(totals["answered"], 1);
        assert_eq!(totals["failed"], json!({ "connection_lost": 1 }));
        assert_eq!(totals["cancelled"], 1);
        assert_eq!(totals["restarts"], 1);
        assert_eq!(totals["tool_handles_lost"], 0);
    }

    #[test]
    fn each_departure_from_the_claims_is_a_problem() {
        type Departure = (&'static str, fn(&mut Tally));
        let departures: [Departure; 10] = [
            ("#1 deploy was answered 2 times.", |t| {
                t.requests[0].answers.push(Answer::Result("4".into()));
            }),
            ("#1 deploy was never answered.", |t| {
                t.requests[0].answers.clear()
            }),
            ("#1 deploy failed with connection_lost: It died.", |t| {
                t.requests[0].answers = vec![lost()];
            }),
            (
                "#2 deploy should have failed and was answered \"4\".",
                |t| {
                    t.requests[1].answers = vec![Answer::Result("4".into())];
                },
            ),
            ("#3 deploy was cancelled and answered all the same.", |t| {
                t.requests[2].answers = vec![lost()];
            }),
            ("#4 tools/list was never answered.", |t| {
                t.requests[3].answers.clear()
            }),
            ("Restarts: 2, and 1 were claimed.", |t| t.events.ready = 3),
            ("Calls repeated: 1, and 0 were claimed.", |t| {
                t.events.retried = 1
            }),
            ("Tool handles lost: 1, and 0 were claimed.", |t| {
                t.handles_lost = 1
            }),
            ("Something odd.", |t| t.odd("Something odd.")),
        ];
        for (sentence, depart) in departures {
            let mut tally = honest();
            depart(&mut tally);
            let problems = tally.problems(ONE_KILL);
            assert!(
                problems.iter().any(|p| p == sentence),
                "{sentence} not in {problems:?}"
            );
        }
    }

    #[test]
    fn an_answer_is_filed_under_its_own_id_only() {
        let mut tally = honest();
        assert_eq!(tally.find(&json!(2)).unwrap().id, 2);
        for stranger in [json!(0), json!(5), json!("2"), json!(-1), Value::Null] {
            assert!(tally.find(&stranger).is_none(), "{stranger}");
        }
    }

    #[test]
    fn the_median_of_none_one_two_and_three() {
        let ms = |n| Duration::from_millis(n);
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[ms(7)]), Some(ms(7)));
        assert_eq!(median(&[ms(30), ms(10)]), Some(ms(20)));
        assert_eq!(median(&[ms(30), ms(500), ms(10)]), Some(ms(30)));
    }
}
