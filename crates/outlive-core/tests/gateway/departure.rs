//! A client leaves, and what becomes of its server.

use outlive_core::gateway::{Admission, MOST_STANDBY, ServerId};
use outlive_core::switch::{Client, Sharing};

use super::books::{Broken, Stage, broken};
use super::world::{Doing, World};

impl World {
    /// `unanswered`: before it was told how its handshake ended.
    pub(super) fn leave(&mut self, client: Client, unanswered: bool) -> Result<(), Broken> {
        let book = self.books.clients.remove(&client).expect("a client");
        let unanswered = unanswered && book.calls == 0;
        self.say(format!("{client:?} leaves, unanswered {unanswered}"));
        let Stage::Joined(server) = book.stage else {
            self.tell_left(client, unanswered);
            return self.carry_out(Doing::Leave);
        };
        let servers = self.books.servers.values();
        let room = servers.filter(|it| it.standby.is_some()).count() < MOST_STANDBY;
        let mut heir = self.books.heir(server);
        let mut expected = false;
        if let Some(it) = self.books.servers.get_mut(&server) {
            it.used = self.now;
            it.session.change(|usage| {
                usage.in_flight -= book.calls;
                usage.last = self.now;
            });
            let handshaking = it.session.0.get().handshaking;
            let known = it.opening.is_some() && (handshaking || unanswered);
            let dedicated = it.sharing == Sharing::Dedicated && !it.is_stopping();
            let kept = dedicated && known && self.shutdowns == 0;
            self.seen.kept_after_handshake += usize::from(kept && !handshaking);
            heir = heir.filter(|_| kept);
            if kept && heir.is_none() && room {
                self.seen.standby += 1;
                it.standby = Some(self.now);
                expected = true;
            }
        }
        if let Some(heir) = heir {
            self.take_over(heir, server);
        }
        self.tell_left(client, unanswered);
        self.carry_out(Doing::Leave)?;
        if expected && self.books.servers[&server].is_stopping() {
            let how = format!("{server:?} is stopped although its client may come back");
            return broken(5, how);
        }
        let Some(heir) = heir else {
            return Ok(());
        };
        let kept = self.gateway.server(server);
        if kept.is_none_or(|it| it.clients() != 1) {
            let how =
                format!("{server:?} is not given to {heir:?}, who is here with the same words");
            return broken(5, how);
        }
        self.is_let_in(heir)
    }

    fn tell_left(&mut self, client: Client, unanswered: bool) {
        match unanswered {
            true => self.gateway.leave_unanswered(client, self.now),
            false => self.gateway.leave(client, self.now),
        }
    }

    /// A client that is here already gets the server that would have been kept for it.
    fn take_over(&mut self, heir: Client, server: ServerId) {
        let book = self.books.clients.get_mut(&heir).expect("a client");
        match book.stage {
            Stage::Waiting(_) => self.seen.taken_over_by_waiting += 1,
            _ => self.seen.taken_over_by_admitted += 1,
        }
        book.stage = Stage::Joined(server);
    }

    /// A client that has been given a server needs no room for one.
    fn is_let_in(&mut self, client: Client) -> Result<(), Broken> {
        let admission = self.gateway.admit(client, self.now);
        self.carry_out(Doing::Other)?;
        match admission {
            Admission::Admitted => Ok(()),
            other => broken(
                3,
                format!("{client:?} was given a server and is told {other:?}"),
            ),
        }
    }
}
