//! The end of a schedule: everything works again, and what was promised is kept, in time.

use std::time::Duration;

use crate::schedule::Kind;
use crate::world::{Broken, Call, Place, Request, World, broken};

const STEP: Duration = Duration::from_millis(500);

impl World {
    /// Everything works again; what was promised is kept, and in time.
    pub fn end(&mut self) -> Result<(), Broken> {
        for replica in &mut self.replicas {
            (replica.paused, replica.partitioned) = (false, false);
            (replica.isolated, replica.wall) = (false, 0);
            replica.leaving = replica.leaving.map(|_| true);
        }
        let healed = self.now;
        // A claim may have been answered in vain just before its owner ended, so a second lease may have to run out.
        let bound = self.policy.length * 3 + STEP * 20;
        let open = |world: &World| {
            world.where_it(|it| {
                it.promised && it.answers == 0 && !matches!(it.place, Place::Over)
                    || !matches!(it.place, Place::Cut | Place::Over)
            })
        };
        let mut turn = 0;
        while !open(self).is_empty() {
            self.settle()?;
            for id in self.where_it(|it| matches!(it.place, Place::Cut)) {
                turn += 1;
                self.resume(id, turn % 3)?;
            }
            self.answer_all();
            for id in self.where_it(|it| matches!(it.place, Place::Streaming(..))) {
                for _ in 0..8 {
                    self.read(id)?;
                }
            }
            if self.now - healed > bound {
                let left = open(self);
                if self.is_forgetful {
                    break;
                }
                return broken(5, format!("{left:?} wait for longer than {bound:?}"));
            }
        }
        if self.is_forgetful {
            return Ok(());
        }
        self.everybody_is_answered()?;
        for (id, request) in &self.requests {
            let Request {
                promised, answers, ..
            } = request;
            if *answers > 1 || *promised && *answers == 0 {
                return broken(2, format!("request {id} was answered {answers} times"));
            }
            if request.trespasses && (*answers > 0 || *promised) {
                return broken(6, format!("request {id} of a stranger was answered"));
            }
        }
        Ok(())
    }

    /// Each session can be used at each replica: one call is enough, whoever has it or had it.
    fn everybody_is_answered(&mut self) -> Result<(), Broken> {
        let (begun, mut calm) = (self.now, 0);
        // Not only now: a lease that was granted late ends soon.
        while calm < 4 {
            self.settle()?;
            let is_ready = |at: usize| self.may_act(at) && self.replicas[at].leaving.is_none();
            calm = match (0..3).all(is_ready) {
                true => calm + 1,
                false => 0,
            };
            if self.now - begun > self.policy.length {
                return broken(5, "a replica has no lease");
            }
        }
        for (session, principal) in self.sessions.clone() {
            for replica in 0..3 {
                let begun = self.now;
                let id = self.call(session, principal, replica, Kind::Unsafe)?;
                while !matches!(self.requests[&id].place, Place::Over) {
                    self.settle()?;
                    self.answer_all();
                    if self.now - begun > self.policy.length * 2 {
                        return broken(5, format!("session {session} is not answered"));
                    }
                }
                let Request {
                    answers, executed, ..
                } = self.requests[&id];
                if (answers, executed) != (1, 1) {
                    let how = format!(
                        "session {session} at {replica}: executed {executed} times, answered {answers} times"
                    );
                    return broken(5, how);
                }
            }
        }
        Ok(())
    }

    fn answer_all(&mut self) {
        for n in 0..8 {
            self.answer(n, true);
        }
    }

    /// Time passes, and whatever is on its way arrives.
    fn settle(&mut self) -> Result<(), Broken> {
        self.now = self.now + STEP;
        for _ in 0..6 {
            self.flow()?;
        }
        Ok(())
    }

    /// Whatever is on its way arrives, where it can.
    pub fn flow(&mut self) -> Result<(), Broken> {
        for replica in 0..self.replicas.len() {
            self.pump(replica)?;
        }
        for _ in 0..self.calls.len() {
            let reaches = |it: &Call| !self.replicas[it.replica].partitioned;
            let asked = self.calls_where(|it| it.said.is_none() && reaches(it));
            if let Some(at) = asked.first() {
                self.apply(*at);
            }
        }
        for _ in 0..self.calls.len() {
            let hears = |it: &Call| !self.replicas[it.replica].paused;
            let said = self.calls_where(|it| it.said.is_some() && hears(it));
            if let Some(at) = said.first() {
                self.deliver(*at)?;
            }
        }
        for leg in self.legs_where(|it| it.travels) {
            self.arrive(leg)?;
        }
        for leg in self.legs_where(|it| it.response.is_some()) {
            self.respond(leg)?;
        }
        Ok(())
    }
}
