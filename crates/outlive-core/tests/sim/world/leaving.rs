//! The last server of a session whose host has closed its side and reads on.

use bytes::Bytes;
use outlive_core::Frame;
use outlive_core::cause::Reason;
use outlive_core::{Input, LinkInput, State};

use super::steps::WELCOME;
use super::{Broken, Server, World};
use crate::schedule::Method;

impl World {
    /// Whether the session has said that no other server follows.
    pub(super) fn is_closing(&self) -> bool {
        matches!(&self.state, State::Down { cause, .. } if cause.reason == Reason::Closing)
    }

    /// The time to finish is over. A host that has left is owed nothing but what its last server is at work on.
    pub(super) fn owe_only_what_is_running(&mut self, last: &Server) {
        if !self.host_closed || !last.last {
            return;
        }
        for (index, asked) in self.asked.iter_mut().enumerate() {
            let running = last.todo.iter().any(|t| t.asked == Some(index));
            if asked.open && (!running || asked.method == Method::Listen) {
                asked.open = false;
                self.open.remove(&asked.id);
            }
        }
    }

    /// Whether the last server is there, and may answer.
    pub(super) fn is_last_running(&self) -> bool {
        !self.closed && self.old.iter().any(|s| s.last && s.up && s.runs)
    }

    /// The last server, which is being stopped, answers.
    pub(super) fn last_answer(&mut self, n: u8) -> Result<(), Broken> {
        let can = |s: &&mut Server| s.last && s.up && s.runs && !s.killed && !s.todo.is_empty();
        let Some(server) = self.old.iter_mut().find(can) else {
            return Ok(());
        };
        let todo = server.todo.remove(usize::from(n) % server.todo.len());
        let generation = server.generation;
        let result = match todo.method.as_str() {
            "initialize" => WELCOME.to_string(),
            "tools/list" => self.tools_page(generation, todo.page).unwrap_or_default(),
            _ => r#"{"late":true}"#.to_string(),
        };
        if result.is_empty() {
            return Ok(());
        }
        let line = format!(r#"{{"id":{},"result":{result}}}"#, todo.id);
        self.note(|| format!("last   > {line}"));
        let owed = todo.asked.filter(|index| self.asked[*index].open);
        let frame = Frame::read(Bytes::from(line));
        self.feed(Input::Link(generation, LinkInput::Frame(frame)))?;
        match owed.filter(|index| self.asked[*index].open) {
            Some(index) => Err(format!(
                "1: the last answer to {} did not reach the host",
                self.asked[index].id
            )),
            None => Ok(()),
        }
    }
}
