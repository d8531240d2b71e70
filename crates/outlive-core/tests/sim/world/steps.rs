//! What happens: each step of a schedule, as the host or the server would do it.

use std::time::Duration;

use bytes::Bytes;
use outlive_core::Frame;
use outlive_core::cause::{Exit, StartFailure};
use outlive_core::framer::TooLong;
use outlive_core::link::{RequestFailure, Resend};
use outlive_core::{Id, Input, LinkInput};

use super::{Asked, Broken, Server, TOO_LONG, Todo, World};
use crate::refusals::PERHAPS_EXECUTED;
use crate::schedule::{Method, Step};

/// The answer to `initialize`.
pub(super) const WELCOME: &str =
    r#"{"protocolVersion":"v1","capabilities":{"tools":{}},"serverInfo":{"name":"s"}}"#;

impl World {
    /// Carries out a step; one that does not apply does nothing.
    pub fn step(&mut self, step: Step) -> Result<(), Broken> {
        if self.closed {
            return Ok(());
        }
        match step {
            Step::Request(method, id) => self.request(method, id),
            Step::Cancel(n) => self.cancel(n),
            Step::CancelUnknown => self.host_line(cancel_line("\"never\"")),
            Step::Initialized => self.send_initialized(),
            Step::HostNotification => self.host_notifies(),
            Step::HostAnswer(n) => {
                let Some((id, ..)) = pick(&self.shown, n) else {
                    return Ok(());
                };
                let line = format!(r#"{{"id":{id},"result":{{}}}}"#);
                self.host_line(line)
            }
            Step::HostJunk => self.host_line("junk {".into()),
            Step::HostTooLong => self.too_long(),
            Step::Up => self.up(),
            Step::Unmade => self.unmade(),
            Step::Answer(n, ok) => self.answer(n, ok),
            Step::AnswerAgain(n) => {
                let Some(server) = self.live() else {
                    return Ok(());
                };
                let Some(todo) = pick(&server.done, n).cloned() else {
                    return Ok(());
                };
                // If the host has used the id again, nobody could tell which request is meant.
                if self.open.contains_key(&todo.id) {
                    return Ok(());
                }
                self.server_line(format!(r#"{{"id":{},"result":{{"again":true}}}}"#, todo.id))
            }
            Step::AnswerAll => {
                let todo = self.live().map_or(0, |s| s.todo.len());
                for _ in 0..todo {
                    self.answer(0, true)?;
                }
                Ok(())
            }
            Step::Ask(n) => self.ask(n),
            Step::TakeBack(n) => {
                let Some(server) = self.live().filter(|s| !s.has_died_unseen()) else {
                    return Ok(());
                };
                let asks: Vec<String> = server.asks.iter().cloned().collect();
                let Some(id) = pick(&asks, n).cloned() else {
                    return Ok(());
                };
                if let Some(server) = self.live() {
                    server.asks.remove(&id);
                }
                self.server_line(cancel_line(&id))
            }
            Step::Progress(n) => self.progress(n, false),
            Step::ProgressAgain(n) => self.progress(n, true),
            Step::ServerNotification => self.server_line(
                r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#.into(),
            ),
            Step::ServerJunk => self.server_line("Listening on stdio…".into()),
            Step::Stderr => self.server_says(LinkInput::Stderr("a word\u{7}".into())),
            Step::Alive => self.server_says(LinkInput::Alive),
            Step::Eof(lost) => self.die(lost, |sent| LinkInput::Eof { sent }, false),
            Step::WriteFails(lost) => {
                if let Some(server) = self.live() {
                    server.deaf = true;
                }
                let error = "EPIPE".to_string();
                self.die(
                    lost,
                    move |sent| LinkInput::WriteFailed {
                        error: error.clone(),
                        sent,
                    },
                    false,
                )
            }
            Step::Exit(lost, signal) => {
                let exit = if signal {
                    Exit::Signal(9)
                } else {
                    Exit::Code(1)
                };
                self.die(lost, |sent| LinkInput::Exited { exit, sent }, true)
            }
            Step::Ends(lost, signal) => self.ends(lost, signal),
            Step::ReadsOn => self.reads_on(),
            Step::WrapperExits(lost, read) => self.wrapper_exits(lost, read),
            Step::Unanswered(n, way) => self.unanswered(n, way),
            Step::Unexecuted(n) => self.unexecuted(n),
            Step::LyingWords(n) => self.lying_words(n),
            Step::LinkRefused(lost) => self.link_refused(lost),
            Step::RefusedEverywhere(n) => self.refused_everywhere(n),
            Step::Forgets(n) => self.forgets(n),
            Step::NotificationRefused => self.notification_refused(),
            Step::Disconnected(lost) => self.die(
                lost,
                |sent| LinkInput::Disconnected { error: None, sent },
                true,
            ),
            Step::WorkEnds => self.work_ends(),
            Step::FragileExits => self.fragile_exits(),
            Step::OldExit => self.old_exit(),
            Step::LastAnswer(n) => self.last_answer(n),
            Step::OldFrame => {
                let replaced = self.old.iter().rfind(|s| !s.last);
                let Some(generation) = replaced.map(|s| s.generation) else {
                    return Ok(());
                };
                let line = Bytes::from_static(br#"{"id":1,"result":{"stale":true}}"#);
                self.feed(Input::Link(generation, LinkInput::Frame(Frame::read(line))))
            }
            Step::Inspected(stopped) => self.server_says(LinkInput::Inspected { stopped }),
            Step::Tick => self.tick(),
            Step::Wait(ms) => {
                self.now = self.now + Duration::from_millis(ms.into());
                self.feed(Input::Tick)
            }
            Step::Sleep(seconds) => {
                self.now = self.now + Duration::from_secs(seconds.into());
                self.feed(Input::Tick)
            }
            Step::HostBlocked(blocked) => {
                self.blocked = blocked;
                self.feed(Input::HostBlocked(blocked))
            }
            Step::Restart => self.restart(),
            Step::TakeOver => self.take_over(),
            Step::Stop => {
                self.stopping = true;
                self.stop_asked = true;
                self.feed(Input::Stop)
            }
            Step::HostCloses => {
                self.stopping = true;
                let again = std::mem::replace(&mut self.host_closed, true);
                if !again {
                    self.left = self.now;
                }
                self.feed(match again {
                    false => Input::HostClosed,
                    true => Input::HostGone,
                })
            }
        }
    }

    /// Whether a step would do anything at all.
    pub fn applies(&self, step: Step) -> bool {
        let server = self.server.as_ref();
        match step {
            Step::Up | Step::Unmade => server.is_some_and(|s| !s.up && !s.dead),
            Step::Answer(n, _) => {
                server.is_some_and(|s| s.up && !s.dead && s.todo.len() > usize::from(n))
            }
            Step::Exit(lost, _) => server
                .is_some_and(|s| s.up && s.runs && s.frames.saturating_sub(lost.into()) >= s.taken),
            Step::Eof(lost) | Step::WriteFails(lost) => server.is_some_and(|s| {
                s.up && !s.dead && s.frames.saturating_sub(lost.into()) >= s.taken
            }),
            Step::OldExit => self.old.iter().any(|s| s.runs),
            Step::ReadsOn => self.can_read_on(),
            Step::WrapperExits(lost, _) => server.is_some_and(|s| {
                s.up && !s.dead && s.frames.saturating_sub(lost.into()) >= s.taken
            }),
            Step::Cancel(n) => self.asked.len() > usize::from(n),
            Step::Tick => self.session.deadline().is_some(),
            _ => !self.closed,
        }
    }

    pub(super) fn host_line(&mut self, line: String) -> Result<(), Broken> {
        if self.host_closed {
            return Ok(());
        }
        self.note(|| format!("host   > {line}"));
        self.feed(Input::Host(Frame::read(line.into())))
    }

    pub(super) fn server_line(&mut self, line: String) -> Result<(), Broken> {
        self.note(|| format!("server > {line}"));
        self.server_says(LinkInput::Frame(Frame::read(line.into())))
    }

    pub(super) fn server_says(&mut self, input: LinkInput) -> Result<(), Broken> {
        let says = |s: &&mut Server| !s.has_died_unseen();
        match self.speaking().filter(says).map(|s| s.generation) {
            Some(generation) => self.feed(Input::Link(generation, input)),
            None => Ok(()),
        }
    }

    pub(super) fn request(&mut self, method: Method, id: u8) -> Result<(), Broken> {
        // Back-pressure: a host that is not read cannot send.
        if self.host_closed || !self.session.wants_host() {
            return Ok(());
        }
        let id = if id % 3 == 2 {
            format!("\"{id}\"")
        } else {
            id.to_string()
        };
        if method == Method::ToolsMore && self.cursor.is_none() {
            return Ok(());
        }
        let cursor = self.cursor.filter(|_| method == Method::ToolsMore);
        let seq = self.seq();
        let index = self.asked.len();
        let meta = match self.modern {
            true => r#""io.modelcontextprotocol/protocolVersion":"m1","progressToken":"#,
            false => r#""progressToken":"#,
        };
        let more = match method {
            Method::CallSafe => r#","name":"safe""#.to_string(),
            Method::CallUnsafe => r#","name":"unsafe""#.to_string(),
            Method::Subscribe | Method::Unsubscribe => format!(r#","uri":"u{}""#, seq % 3),
            Method::SetLevel => r#","level":"info""#.to_string(),
            Method::Listen => r#","notifications":{"toolsListChanged":true}"#.to_string(),
            Method::ToolsMore => format!(r#","cursor":"{}""#, cursor.unwrap_or_default()),
            _ => String::new(),
        };
        let line = format!(
            r#"{{"method":"{}","params":{{"asked":{index},"_meta":{{{meta}{index}}}{more}}},"id":{id}}}"#,
            method.name()
        );
        let duplicate = self.open.contains_key(&id);
        if duplicate {
            self.duplicate = Some(id.clone());
        } else {
            self.open.insert(id.clone(), index);
        }
        self.asked.push(Asked {
            id: id.clone(),
            method,
            seq,
            open: !duplicate,
            cancelled: false,
            sends: Vec::new(),
            unknown: 0,
            denied: false,
            progress: 0,
            told_at: 0,
            attempts: 0,
            cursor,
            again: false,
            acknowledged: 0,
            refused: false,
            refused_everywhere: false,
            refused_by: 0,
        });
        self.host_line(line)?;
        match self.duplicate.take() {
            Some(id) => Err(format!("1: the duplicate of {id} was not answered")),
            None => Ok(()),
        }
    }

    pub(super) fn cancel(&mut self, n: u8) -> Result<(), Broken> {
        let len = self.asked.len();
        if self.host_closed || len == 0 {
            return Ok(());
        }
        let index = len - 1 - usize::from(n) % len;
        let id = self.asked[index].id.clone();
        // The cancellation is of whichever request is open under that id.
        if let Some(&open) = self.open.get(&id)
            && self.asked[open].method != Method::Initialize
        {
            self.asked[open].open = false;
            self.asked[open].cancelled = true;
            self.open.remove(&id);
        }
        self.host_line(cancel_line(&id))
    }

    pub(super) fn send_initialized(&mut self) -> Result<(), Broken> {
        if self.host_closed {
            return Ok(());
        }
        self.initialized = true;
        if let Some(server) = self.live() {
            // Whether it is passed on at once is not checked, only that a later server has it.
            server.initialized = true;
        }
        self.host_line(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.into())
    }

    pub(super) fn too_long(&mut self) -> Result<(), Broken> {
        if self.host_closed {
            return Ok(());
        }
        let id = "\"long\"";
        self.duplicate = Some(id.into());
        self.feed(Input::Host(Frame::TooLong(TooLong {
            id: Id::read(id.as_bytes()),
            id_json: Bytes::from_static(b"\"long\""),
            has_method: true,
            len: TOO_LONG,
        })))?;
        match self.duplicate.take() {
            Some(_) => Err("1: a request that was too long was not answered".into()),
            None => Ok(()),
        }
    }

    pub(super) fn up(&mut self) -> Result<(), Broken> {
        let Some(server) = self.server.as_mut().filter(|s| !s.up && !s.dead) else {
            return Ok(());
        };
        server.up = true;
        server.runs = true;
        let generation = server.generation;
        self.note(|| format!("link {generation} is up"));
        self.feed(Input::Link(generation, LinkInput::Up))
    }

    pub(super) fn unmade(&mut self) -> Result<(), Broken> {
        let Some(server) = self.server.as_mut().filter(|s| !s.up && !s.dead) else {
            return Ok(());
        };
        server.dead = true;
        let generation = server.generation;
        self.note(|| format!("link {generation} cannot be made"));
        self.feed(Input::Link(
            generation,
            LinkInput::Unmade(StartFailure::NotFound),
        ))
    }

    pub(super) fn answer(&mut self, n: u8, ok: bool) -> Result<(), Broken> {
        self.answer_cancelled()?;
        let Some(server) = self.speaking() else {
            return Ok(());
        };
        if server.todo.is_empty() || server.has_died_unseen() {
            return Ok(());
        }
        let todo = server.todo.remove(usize::from(n) % server.todo.len());
        let pinged = |t: &Todo| t.method == "ping" && t.asked.is_none();
        if todo.method == "tools/list" && todo.asked.is_none() && server.todo.iter().any(pinged) {
            self.pings_ignored = true;
        }
        if self.refuses(&todo) {
            return self.refuse_as_forgotten(todo);
        }
        let Some(server) = self.speaking() else {
            return Ok(());
        };
        server.taken = server.taken.max(todo.frame + 1);
        let generation = server.generation;
        let mut ok = ok;
        let result = match todo.method.as_str() {
            "initialize" => {
                server.greeted |= ok;
                WELCOME.to_string()
            }
            "server/discover" => r#"{"supportedVersions":["m1"],"capabilities":{}}"#.to_string(),
            "tools/list" => match self.tools_page(generation, todo.page) {
                Some(page) => {
                    self.note_listing(&todo, ok);
                    page
                }
                None => {
                    ok = false;
                    String::new()
                }
            },
            _ => "{}".to_string(),
        };
        let Some(server) = self.speaking() else {
            return Ok(());
        };
        let line = match ok {
            true => format!(r#"{{"id":{},"result":{result}}}"#, todo.id),
            false => format!(
                r#"{{"id":{},"error":{{"code":-1,"message":"no"}}}}"#,
                todo.id
            ),
        };
        let acknowledge = ok && todo.method == "subscriptions/listen";
        if acknowledge {
            // It stays open; what is sent is the acknowledgement.
            server.todo.push(todo.clone());
            return self.server_line(format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{}}}}}}}"#,
                todo.id
            ));
        }
        let line = match todo.frame % 7 {
            // Something was printed before it, without a line end.
            6 => format!("..{line}"),
            _ => line,
        };
        server.done.push(todo);
        self.server_line(line)
    }

    pub(super) fn ask(&mut self, n: u8) -> Result<(), Broken> {
        let Some(server) = self.live().filter(|s| !s.has_died_unseen()) else {
            return Ok(());
        };
        // A server may use an id again once it is answered.
        server.next_ask += 1;
        let id = format!("{}", 100 + u64::from(n) % server.next_ask);
        if !server.asks.insert(id.clone()) {
            return Ok(());
        }
        self.server_line(format!(
            r#"{{"method":"elicitation/create","id":{id},"params":{{}}}}"#
        ))
    }

    /// The server reports progress: more than before, or, again, the least that it has reported.
    pub(super) fn progress(&mut self, n: u8, again: bool) -> Result<(), Broken> {
        let len = self.asked.len();
        if len == 0 {
            return Ok(());
        }
        let index = len - 1 - usize::from(n) % len;
        let open = self.asked[index].open;
        let Some(server) = self.speaking() else {
            return Ok(());
        };
        // Of what it was not sent it knows nothing; of what is over it may still speak.
        let has = server.todo.iter().find(|t| t.asked == Some(index));
        let frame = has.map(|t| t.frame);
        if open && frame.is_none() {
            return Ok(());
        }
        if again && !server.progress.contains_key(&index) {
            return Ok(());
        }
        server.taken = server.taken.max(frame.map_or(0, |frame| frame + 1));
        let progress = server.progress.entry(index).or_default();
        let progress = match again {
            true => 1,
            false => {
                *progress += 1;
                *progress
            }
        };
        let line = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{index},"progress":{progress}}}}}"#
        );
        self.server_line(line)
    }

    /// The link of the live server dies, as far as the session is told.
    pub(super) fn die(
        &mut self,
        lost: u8,
        input: impl Fn(u64) -> LinkInput,
        exits: bool,
    ) -> Result<(), Broken> {
        let Some(server) = self
            .server
            .as_mut()
            .filter(|s| s.up && (!s.dead || (exits && s.runs)))
        else {
            return Ok(());
        };
        // One that has died of a cancellation says nothing before its process ends.
        if server.has_died_unseen() && !exits {
            return Ok(());
        }
        let first = !server.dead;
        let sent = match first {
            true if server.has_died_unseen() => server.swallowed(),
            true => server.frames.saturating_sub(lost.into()).max(server.taken),
            false => server.taken,
        };
        let generation = server.generation;
        if first {
            server.taken = sent;
        }
        server.dead = true;
        server.runs &= !exits;
        server.cut_off |= exits || server.deaf;
        let todo = server.todo.clone();
        if first {
            for todo in todo {
                if let Some(index) = todo.asked
                    && todo.frame < sent
                {
                    self.asked[index].unknown += 1;
                }
            }
        }
        self.note(|| format!("link {generation} dies, {sent} frames taken, exits: {exits}"));
        self.feed(Input::Link(generation, input(sent)))
    }

    /// The server would take one request in another way: the session says at once whether it gets it again. If not, the
    /// request fails for what the server said.
    fn unexecuted(&mut self, n: u8) -> Result<(), Broken> {
        let Some(server) = self.live().filter(|s| !s.has_died_unseen()) else {
            return Ok(());
        };
        let generation = server.generation;
        let Some(todo) = pick(&server.todo, n).cloned() else {
            return Ok(());
        };
        let id = Id::read(todo.id.as_bytes()).expect("an id");
        let wanted = |asked: &Asked| asked.open && !asked.cancelled;
        let wanted = todo.asked.is_none_or(|index| wanted(&self.asked[index]));
        let why = Resend::Credentials;
        self.feed(Input::Link(generation, LinkInput::Unexecuted { id, why }))?;
        match self.resend.take() {
            None => Err(format!("3: nobody says whether {} is sent again", todo.id)),
            Some((on, _)) if on != generation => {
                Err(format!("6: {on} is told what {generation} asked"))
            }
            Some((_, true)) if !wanted => Err(format!(
                "2: nobody waits for {}, and it is sent again",
                todo.id
            )),
            Some((_, true)) => Ok(()),
            Some((_, false)) => self.unanswered(n, 3),
        }
    }

    /// One request will not be answered, and the link may live on.
    fn unanswered(&mut self, n: u8, way: u8) -> Result<(), Broken> {
        let Some(server) = self.live().filter(|s| !s.has_died_unseen()) else {
            return Ok(());
        };
        let generation = server.generation;
        let Some(todo) = pick(&server.todo, n).cloned() else {
            return Ok(());
        };
        server.todo.retain(|t| t.id != todo.id);
        server.unlisted |= todo.asked.is_none() && todo.method == "tools/list";
        let id = Id::read(todo.id.as_bytes()).expect("an id");
        let rejected = |status, seconds| RequestFailure::Rejected {
            status,
            retry_after: Some(Duration::from_secs(seconds)),
        };
        let failure = match way {
            0 => rejected(503, 0),
            1 => rejected(429, 2),
            2 => rejected(400, 0),
            3 => rejected(401, 0),
            4 => RequestFailure::Unsent("refused".into()),
            5 => return self.refuse_as_forgotten(todo),
            6 => RequestFailure::WrongEra("It is too old.".into()),
            8 | 9 => rejected(403, 0),
            10 => rejected(503, 3_600),
            11 => rejected(503, 12),
            PERHAPS_EXECUTED => RequestFailure::Rejected {
                status: 503,
                retry_after: None,
            },
            12 => RequestFailure::Elsewhere {
                status: 302,
                why: "it redirects to https://login.example, which is another origin".into(),
            },
            _ => RequestFailure::Lost("reset".into()),
        };
        if let Some(index) = todo.asked {
            let asked = &mut self.asked[index];
            // On this link it is as if it had not been sent, or it counts as one more death.
            asked.sends.retain(|(on, _)| *on != generation);
            asked.again = true;
            match failure {
                RequestFailure::Lost(_) => asked.unknown += 1,
                // Perhaps a proxy, behind which it was executed; of a greeting nobody asks that.
                RequestFailure::Rejected {
                    status: 503,
                    retry_after: None,
                } if matches!(asked.method, Method::Initialize | Method::Discover) => {}
                RequestFailure::Rejected {
                    status: 503,
                    retry_after: None,
                } => asked.unknown = asked.unknown.max(1),
                RequestFailure::Unsent(_) => {}
                _ => asked.refused = true,
            }
        }
        self.note(|| format!("server leaves {} unanswered: {failure:?}", todo.id));
        self.feed(Input::Link(
            generation,
            LinkInput::Unanswered { id, failure },
        ))
    }

    /// A process that is no longer in service ends.
    pub(super) fn old_exit(&mut self) -> Result<(), Broken> {
        let Some(server) = self.old.iter_mut().find(|s| s.runs) else {
            return Ok(());
        };
        server.runs = false;
        let generation = server.generation;
        let sent = server.taken;
        self.note(|| format!("old process {generation} ends"));
        self.feed(Input::Link(
            generation,
            LinkInput::Exited {
                exit: Exit::Signal(9),
                sent,
            },
        ))
    }

    /// The user wants a new server. What is running may finish, however often that is said.
    fn restart(&mut self) -> Result<(), Broken> {
        // What waits is for the next server.
        self.notes.clear();
        let serving = self.live().map(|s| s.generation);
        let before = self.restarting.filter(|(on, _)| Some(*on) == serving);
        self.feed(Input::Restart)?;
        let still = self.live().map(|s| s.generation);
        if let Some((generation, since)) = before
            && still != serving
            && self.now - since < self.policy.drain
        {
            return Err(format!(
                "1: a second restart ended what {generation} was given time for"
            ));
        }
        self.restarting = match still {
            Some(_) if before.is_some() => before,
            still => still.map(|generation| (generation, self.now)),
        };
        Ok(())
    }

    pub(super) fn tick(&mut self) -> Result<(), Broken> {
        let Some(deadline) = self.session.deadline() else {
            return Ok(());
        };
        self.now = self.now.max(deadline);
        self.feed(Input::Tick)
    }
}

fn cancel_line(id: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
    )
}

fn pick<T>(items: &[T], n: u8) -> Option<&T> {
    match items.is_empty() {
        true => None,
        false => items.get(items.len() - 1 - usize::from(n) % items.len()),
    }
}
