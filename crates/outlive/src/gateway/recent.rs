//! What is remembered of a target for people who look at it: its calls of the last minutes, its tools, its name.
//!
//! It is written on the way of every request, so that costs one look at the clock and a lock that is held for a few
//! additions; a session of [`run`](crate::run()), which nobody looks at, has none of it. Tools are learned from lists
//! that clients ask for: outlive asks for none by itself. Only the answer to such a request is read.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use outlive_core::gateway::ServerId;
use outlive_core::history::{Calls, Window};
use outlive_core::request::{self, Request, RequestEnd, Step};
use outlive_core::{Message, Time};
use serde::Deserialize;

use crate::observer::{Numbered, Observer};

/// Calls are counted in slots this long.
pub(super) const CALL_SLOT: Duration = Duration::from_secs(5);

/// Tools that are shown, and letters of their names.
const MOST_TOOLS: usize = 200;
const LONGEST_NAME: usize = 100;

/// Lists that were asked for and whose answers are on their way through.
const MOST_EXPECTED: usize = 16;

/// What is remembered of a target.
pub(super) struct Recent {
    /// When this began. The clock of a session would not do: it stands still while the machine sleeps.
    clock: Instant,
    calls: Mutex<Window<Calls>>,
    /// Whether a list of tools is on its way through.
    expects_list: AtomicBool,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    expected: VecDeque<Expected>,
    tools: Option<Tools>,
    software: Option<String>,
}

/// A list of tools that comes next.
struct Expected {
    server: ServerId,
    id: Box<[u8]>,
    is_first_page: bool,
}

/// The tools of a target, as far as lists of them went by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tools {
    pub(super) names: Vec<String>,
    /// How many there are beside.
    pub(super) more: usize,
}

impl Tools {
    fn add(&mut self, names: Vec<String>) {
        for name in names {
            match self.names.len() < MOST_TOOLS {
                true => self.names.push(name.chars().take(LONGEST_NAME).collect()),
                false => self.more += 1,
            }
        }
    }
}

impl Recent {
    pub(super) fn new() -> Recent {
        Recent {
            clock: Instant::now(),
            calls: Mutex::new(Window::new(CALL_SLOT)),
            expects_list: AtomicBool::new(false),
            known: Mutex::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn window(&self) -> MutexGuard<'_, Window<Calls>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The calls of the last minutes, in slots of [`CALL_SLOT`], oldest first.
    pub(super) fn calls(&self) -> Vec<Option<Calls>> {
        let window = self.window();
        window
            .read(self.now())
            .map(Option::<&Calls>::cloned)
            .collect()
    }

    fn now(&self) -> Time {
        Time::after(self.clock.elapsed())
    }

    /// Its tools, if a list of them went by.
    pub(super) fn tools(&self) -> Option<Tools> {
        self.known().tools.clone()
    }

    /// What its servers say they are.
    pub(super) fn software(&self) -> Option<String> {
        self.known().software.clone()
    }

    /// A server says what it is.
    pub(super) fn name_software(&self, software: String) {
        let software = software.chars().take(LONGEST_NAME).collect();
        self.known().software = Some(software);
    }

    fn note(&self, request: &Request<'_>, step: &Step<'_>) {
        let now = self.now();
        self.window().at(now).note(request, step);
    }

    /// The answer to this request for a list of tools comes next.
    fn expect_list(&self, server: ServerId, request: &Request<'_>) {
        #[derive(Default, Deserialize)]
        struct Params {
            cursor: Option<String>,
        }
        let params = request.message.and_then(Message::params);
        let params = params.and_then(|params| serde_json::from_slice::<Params>(params).ok());
        let mut known = self.known();
        known.expected.truncate(MOST_EXPECTED - 1);
        known.expected.push_front(Expected {
            server,
            id: request.id.into(),
            is_first_page: params.unwrap_or_default().cursor.is_none(),
        });
        self.expects_list.store(true, Ordering::Release);
    }

    /// Reads an answer that a server's session passes on, if it is a list of tools.
    pub(super) fn learn(&self, server: ServerId, answer: &Message) {
        #[derive(Deserialize)]
        struct Page {
            tools: Vec<Tool>,
        }
        #[derive(Deserialize)]
        struct Tool {
            name: String,
        }
        if !self.expects_list.load(Ordering::Acquire) {
            return;
        }
        let mut known = self.known();
        let is_it = |it: &Expected| it.server == server && *it.id == *answer.id_json();
        let Some(at) = known.expected.iter().position(is_it) else {
            return;
        };
        let expected = known.expected.remove(at);
        let expects_more = !known.expected.is_empty();
        self.expects_list.store(expects_more, Ordering::Release);
        let page = answer.result().map(serde_json::from_slice::<Page>);
        if let (Some(Ok(page)), Some(expected)) = (page, expected) {
            let names = page.tools.into_iter().map(|tool| tool.name).collect();
            if expected.is_first_page {
                known.tools = None;
            }
            known.tools.get_or_insert_default().add(names);
        }
    }
}

/// Whoever watches the requests of one session of a gateway.
pub(super) struct RequestWatch {
    pub(super) server: ServerId,
    pub(super) recent: Arc<Recent>,
    /// The observer of the gateway, if it wants to be told.
    pub(super) observer: Option<Numbered<dyn Observer>>,
}

impl request::Observer for RequestWatch {
    fn request(&self, now: Time, request: Request<'_>, step: Step<'_>) {
        if Calls::counts(&request, &step) {
            self.recent.note(&request, &step);
            if let Step::Settled { how, .. } = step
                && request.method == "tools/list"
                && how.ending() == RequestEnd::Ok
            {
                self.recent.expect_list(self.server, &request);
            }
        }
        if let Some(observer) = &self.observer {
            observer.request(now, request, step);
        }
    }
}

impl fmt::Debug for RequestWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestWatch")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlive_core::Frame;
    use outlive_core::request::{Observer as _, Settled};

    fn message(text: &str) -> Message {
        match Frame::read(text.as_bytes().to_vec().into()) {
            Frame::Message(message) => message,
            frame => panic!("{frame:?}"),
        }
    }

    fn ask(watch: &RequestWatch, message: &Message) {
        let request = Request {
            number: None,
            id: message.id_json(),
            method: message.method(),
            message: Some(message),
        };
        let step = Step::Settled {
            how: Settled::Answered { is_error: false },
            took: Duration::from_millis(2),
        };
        watch.request(Time::ZERO, request, step);
    }

    fn names(recent: &Recent) -> Vec<String> {
        recent.tools().map(|tools| tools.names).unwrap_or_default()
    }

    #[test]
    fn tools_are_learned_from_the_lists_that_go_by_page_by_page() {
        let recent = Arc::new(Recent::new());
        let server = ServerId(1);
        let watch = RequestWatch {
            server,
            recent: recent.clone(),
            observer: None,
        };
        let first = message(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
        let answer =
            message(r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a"},{"name":"b"}]}}"#);
        recent.learn(server, &answer);
        assert_eq!(recent.tools(), None, "nobody has asked");
        ask(&watch, &first);
        recent.learn(ServerId(2), &answer);
        assert_eq!(recent.tools(), None, "it is another's");
        recent.learn(server, &answer);
        assert_eq!(names(&recent), ["a", "b"]);
        let second = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":"x"}}"#;
        ask(&watch, &message(second));
        let answer = message(r#"{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"c"}]}}"#);
        recent.learn(server, &answer);
        assert_eq!(names(&recent), ["a", "b", "c"]);
        ask(&watch, &first);
        recent.learn(
            server,
            &message(r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}"#),
        );
        assert_eq!(recent.tools(), Some(Tools::default()), "there are none now");
        let ended = recent.calls().into_iter().flatten().map(|it| it.ended);
        assert_eq!(ended.sum::<u32>(), 3);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut tools = Tools::default();
        tools.add(vec!["ä".repeat(1000); MOST_TOOLS + 7]);
        assert_eq!((tools.names.len(), tools.more), (MOST_TOOLS, 7));
        assert_eq!(tools.names[0].chars().count(), LONGEST_NAME);
        let recent = Arc::new(Recent::new());
        let watch = RequestWatch {
            server: ServerId(1),
            recent: recent.clone(),
            observer: None,
        };
        for id in 0..100 {
            ask(
                &watch,
                &message(&format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#
                )),
            );
        }
        assert_eq!(recent.known().expected.len(), MOST_EXPECTED);
    }
}
