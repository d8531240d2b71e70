//! What replicas ask the store, and what they make of its answers.

use outlive_core::session_record::KeptSession;
use outlive_core::tenure::{Found, Owner, Renewal};

use crate::replica::Live;
use crate::store::{Ask, Said};
use crate::world::{Broken, Call, Response, World, broken};

impl World {
    pub fn ask(&mut self, replica: usize, ask: Ask) {
        let run = self.replicas[replica].run;
        self.calls.push(Call {
            replica,
            run,
            ask,
            said: None,
            given_up: false,
        });
    }

    /// Asks for a session, once at a time.
    pub fn claim(&mut self, session: u32, principal: &'static str, replica: usize) {
        let (by, run) = (self.replicas[replica].owner, self.replicas[replica].run);
        let is_it = |it: &Call| {
            let same =
                matches!(it.ask, Ask::Claim(id, who, _) if id == session && who == principal);
            it.replica == replica && it.run == run && !it.given_up && same
        };
        if !self.calls.iter().any(is_it) {
            self.ask(replica, Ask::Claim(session, principal, by));
        }
    }

    pub fn apply(&mut self, at: usize) {
        if self.replicas[self.calls[at].replica].partitioned {
            return;
        }
        let ask = self.calls[at].ask.clone();
        let said = self.store.hear(ask, self.policy.length, self.now);
        match self.calls[at].given_up {
            true => drop(self.calls.remove(at)),
            false => self.calls[at].said = Some(said),
        }
    }

    /// Whoever waits for a call learns that there is no answer.
    pub fn fail(&mut self, at: usize) {
        let Call {
            replica, run, ask, ..
        } = &self.calls[at];
        let (replica, run, ask) = (*replica, *run, ask.clone());
        if self.replicas[replica].run != run {
            return;
        }
        let now = self.local(replica);
        match ask {
            Ask::Renew(owner, _) if owner == self.replicas[replica].owner => {
                self.replicas[replica].lease.answered(now, Renewal::Failed);
            }
            Ask::Claim(session, principal, _) => {
                self.found(replica, session, principal, Found::Failed);
                self.turn_away(replica, session, principal, Response::Refused);
            }
            // A write is made again, under its number.
            _ => {}
        }
    }

    /// What others have forwarded in vain is answered.
    fn turn_away(&mut self, replica: usize, session: u32, principal: &str, response: Response) {
        let legs = &self.legs;
        let is_it = |it: &mut (u32, u64)| {
            let whose = legs.get(&it.1).map(|leg| leg.principal);
            it.0 == session && whose.is_none_or(|whose| whose == principal)
        };
        let arrivals = self.replicas[replica].arrivals.extract_if(.., is_it);
        for (_, leg) in arrivals.collect::<Vec<_>>() {
            self.reply(leg, response);
        }
    }

    pub fn deliver(&mut self, at: usize) -> Result<(), Broken> {
        let call = self.calls.remove(at);
        let (replica, Some(said)) = (call.replica, call.said) else {
            return Ok(());
        };
        if self.replicas[replica].run != call.run {
            return Ok(());
        }
        let now = self.local(replica);
        match (call.ask, said) {
            (Ask::Renew(owner, _), Said::Renewed(granted)) => {
                let replica = &mut self.replicas[replica];
                let renewal = match granted {
                    true => Renewal::Granted,
                    false => Renewal::Refused,
                };
                if owner == replica.owner {
                    replica.lease.answered(now, renewal);
                }
            }
            (Ask::Begin(id, principal, by, _), Said::Begun(tenure)) => {
                // The client knows its session from now on.
                self.sessions.push((id, principal));
                if by == self.replicas[replica].owner && self.may_act(replica) {
                    let live = Live::begun(self.fresh(), tenure);
                    self.replicas[replica].lives.insert(id, live);
                }
            }
            (Ask::Claim(session, principal, by), said) => {
                self.claimed(replica, session, principal, by, said)?;
            }
            (Ask::Write(session, tenure, number, _), Said::Written(stored)) => {
                let lives = &mut self.replicas[replica].lives;
                let live = lives.get_mut(&session).filter(|it| it.tenure == tenure);
                match (live, stored) {
                    (Some(live), true) => live.stored(number),
                    (Some(_), false) => {
                        self.seen.fenced += 1;
                        self.drop_session(replica, session);
                    }
                    (None, _) => {}
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn claimed(
        &mut self,
        replica: usize,
        session: u32,
        principal: &'static str,
        by: Owner,
        said: Said,
    ) -> Result<(), Broken> {
        let whose = self.sessions.iter().find(|it| it.0 == session);
        let is_own = whose.is_some_and(|it| it.1 == principal);
        match said {
            Said::Granted(..) if !is_own => {
                return broken(6, format!("session {session} was given to {principal}"));
            }
            // What is granted to a name that it no longer has is nothing to it.
            Said::Granted(tenure, _)
                if by != self.replicas[replica].owner || !self.may_act(replica) =>
            {
                self.ask(replica, Ask::Release(session, tenure));
                self.found(replica, session, principal, Found::Failed);
                self.turn_away(replica, session, principal, Response::Refused);
            }
            Said::Granted(tenure, parts) => {
                let kept = KeptSession::read(parts).expect("a session");
                self.seen.takeovers += 1;
                self.drop_session(replica, session);
                let live = Live::taken_over(self.fresh(), tenure, &kept);
                self.replicas[replica].lives.insert(session, live);
                self.found(replica, session, principal, Found::Granted);
                let here = &mut self.replicas[replica];
                let arrivals: Vec<_> = here.arrivals.extract_if(.., |it| it.0 == session).collect();
                for (_, leg) in arrivals {
                    self.take_in(replica, leg)?;
                }
            }
            Said::Held(owner) => {
                self.seen.held += 1;
                let known = &mut self.replicas[replica].known;
                known.insert((session, principal), owner);
                self.found(replica, session, principal, Found::Held(owner, true));
                self.turn_away(replica, session, principal, Response::Elsewhere);
            }
            _ => {
                self.found(replica, session, principal, Found::Absent);
                self.turn_away(replica, session, principal, Response::Absent);
            }
        }
        Ok(())
    }
}
