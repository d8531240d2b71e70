//! Refusals: of a request, by one session or by all; of a link, late; and words that only sound like one.

use outlive_core::cause::StartFailure;
use outlive_core::{Id, Input, LinkInput, State};

use super::{Asked, Broken, Todo, World};
use crate::schedule::Method;

impl World {
    /// Whether the server refuses this as if it knew no session.
    pub(super) fn refuses(&self, todo: &Todo) -> bool {
        let forgot = self.server.as_ref().and_then(|server| server.forgot);
        let cursed = |index: usize| self.asked[index].refused_everywhere;
        forgot.is_some_and(|from| todo.frame >= from) || todo.asked.is_some_and(cursed)
    }

    /// Refuses what was taken from the server's list as if it knew no session; it was not executed.
    pub(super) fn refuse_as_forgotten(&mut self, todo: Todo) -> Result<(), Broken> {
        let Some(server) = self.speaking() else {
            return Ok(());
        };
        let generation = server.generation;
        let counted = server.dead && todo.frame < server.taken;
        // If it then says something else to a ping, it is not found out, and its tools are not asked for again.
        server.unlisted |= todo.asked.is_none() && todo.method == "tools/list";
        if todo.asked.is_none() {
            server.forgot.get_or_insert(todo.frame);
            self.forgotten = true;
        }
        let id = Id::read(todo.id.as_bytes()).expect("an id");
        if let Some(index) = todo.asked {
            let asked = &mut self.asked[index];
            // It was thought to have died with the link, and shows now that it was not executed.
            // (It was not, if the server was cut off before it and made progress all the same.)
            asked.unknown = asked.unknown.saturating_sub(u32::from(counted));
            asked.refused_by += 1;
            asked.refused = true;
            asked.again = true;
            asked.sends.retain(|(on, _)| *on != generation);
        }
        self.note(|| format!("server refuses {} as if it knew no session", todo.id));
        self.feed(Input::Link(
            generation,
            LinkInput::Expired {
                id: Some(id),
                status: 404,
            },
        ))
    }

    pub(super) fn refused_everywhere(&mut self, n: u8) -> Result<(), Broken> {
        let Some(todo) = self.take_todo(n) else {
            return Ok(());
        };
        match todo.asked {
            Some(index) => self.asked[index].refused_everywhere = true,
            // What the session itself asks is not refused by all.
            None => return self.give_back(todo),
        }
        self.refuse_as_forgotten(todo)
    }

    pub(super) fn forgets(&mut self, n: u8) -> Result<(), Broken> {
        let Some(server) = self.live() else {
            return Ok(());
        };
        server.forgot.get_or_insert(server.frames);
        self.forgotten = true;
        match self.take_todo(n) {
            Some(todo) => self.refuse_as_forgotten(todo),
            None => Ok(()),
        }
    }

    pub(super) fn notification_refused(&mut self) -> Result<(), Broken> {
        let Some(generation) = self.live().map(|server| server.generation) else {
            return Ok(());
        };
        self.note(|| "server refuses a notification as if it knew no session".into());
        self.feed(Input::Link(
            generation,
            LinkInput::Expired {
                id: None,
                status: 404,
            },
        ))
    }

    /// The tool was executed, and its own error sounds like a lost session: the transport passes it on, and says how
    /// it sounds.
    pub(super) fn lying_words(&mut self, n: u8) -> Result<(), Broken> {
        let Some(todo) = self.take_todo(n) else {
            return Ok(());
        };
        let Some(server) = self.live().filter(|_| todo.asked.is_some()) else {
            return self.give_back(todo);
        };
        server.taken = server.taken.max(todo.frame + 1);
        let generation = server.generation;
        let line = format!(
            r#"{{"id":{},"error":{{"code":-32602,"message":"Invalid session: no such session"}}}}"#,
            todo.id
        );
        server.done.push(todo);
        self.server_line(line)?;
        self.feed(Input::Link(generation, LinkInput::MaybeExpired))
    }

    pub(super) fn link_refused(&mut self, lost: u8) -> Result<(), Broken> {
        let why = StartFailure::Other("it is elsewhere".into());
        let refused = move |sent| LinkInput::Refused {
            why: why.clone(),
            sent,
        };
        self.die(lost, refused, false)
    }

    fn take_todo(&mut self, n: u8) -> Option<Todo> {
        let server = self.live()?;
        let last = server.todo.len().checked_sub(1)?;
        Some(server.todo.remove(last - usize::from(n) % (last + 1)))
    }

    fn give_back(&mut self, todo: Todo) -> Result<(), Broken> {
        if let Some(server) = self.live() {
            server.todo.push(todo);
        }
        Ok(())
    }

    /// What is said about a request's end is true, and nobody pays for the refusal of another's request.
    pub(super) fn check_refusals(&self, asked: &Asked, text: &str) -> Result<(), Broken> {
        let unexecuted =
            text.contains(r#""outcome":"not_sent""#) || text.contains(r#""outcome":"rejected""#);
        let counts = !matches!(
            asked.method,
            Method::Listen | Method::Initialize | Method::Discover
        );
        if unexecuted && asked.unknown > 0 && counts {
            return Err(format!("4: {} may have been executed: {text}", asked.id));
        }
        let lost = text.contains("connection_lost");
        let on = asked.sends.last().map(|(generation, _)| *generation);
        let mut servers = self.server.iter().chain(&self.old);
        let alive =
            |server: &super::Server| Some(server.generation) == on && server.forgot.is_none();
        let here = on.is_some_and(|on| text.contains(&format!(r#""generation":{on}"#)));
        if lost && here && text.contains(r#""kind":"unauthorized""#) {
            return Err(format!(
                "1: {} was lost for another's credentials",
                asked.id
            ));
        }
        if asked.refused && text.contains(r#""outcome":"not_sent""#) {
            return Err(format!(
                "4: {} was refused and said not to be sent",
                asked.id
            ));
        }
        if lost && here && text.contains("session_expired") && servers.any(alive) {
            return Err(format!("1: {} was lost for another's refusal", asked.id));
        }
        Ok(())
    }

    /// No server has forgotten a session: the breaker has no reason to open for that.
    pub(super) fn check_failed(&self, state: &State) -> Result<(), Broken> {
        match state {
            State::Failed { cause, .. } if cause.kind() == "session_expired" && !self.forgotten => {
                Err("3: the breaker opened for refused requests alone".into())
            }
            _ => Ok(()),
        }
    }
}
