//! The process that owns the session ends, with all its servers, and another one resumes the session from a snapshot.

use outlive_core::{Input, Session, Snapshot};

use super::{Broken, World};

impl World {
    /// All that the former owner was told to do has been done. Whatever its servers were sent they may have executed;
    /// nobody hears from them again.
    pub(super) fn take_over(&mut self) -> Result<(), Broken> {
        if self.stopping {
            // Nobody takes over what is ending.
            return Ok(());
        }
        let told = |error| format!("9: there is no snapshot: {error}");
        let snapshot = self.session.snapshot(self.now).map_err(told)?;
        let bytes = snapshot.encode();
        let read = |error| format!("9: a snapshot cannot be read: {error}");
        let snapshot = Snapshot::decode(&bytes).map_err(read)?;
        if snapshot.encode() != bytes {
            return Err("9: a snapshot is not what it was after it was read".into());
        }
        self.note(|| format!("another process takes over, from {} bytes", bytes.len()));
        let seed = self.now.since_start().as_nanos() as u64;
        let refused = |error| format!("7: a snapshot is refused: {error}");
        self.session =
            Session::resume(self.policy.clone(), seed, snapshot, self.now).map_err(refused)?;
        self.observed.follow(&mut self.session);
        self.end_all();
        self.state = self.session.state().clone();
        self.notes.clear();
        (self.restarting, self.resend) = (None, None);
        self.feed(Input::HostBlocked(self.blocked))?;
        self.feed(Input::Start)?;
        match self.session.deadline() {
            None => Err("3: a session that was resumed waits for nothing".into()),
            Some(_) => Ok(()),
        }
    }

    fn end_all(&mut self) {
        if let Some(mut server) = self.server.take() {
            if !server.dead {
                server.taken = server.frames;
                for index in server.todo.iter().filter_map(|todo| todo.asked) {
                    self.asked[index].unknown += 1;
                }
            }
            self.old.push(server);
        }
        for server in &mut self.old {
            (server.dead, server.killed, server.cut_off) = (true, true, true);
            server.runs = false;
        }
    }
}
