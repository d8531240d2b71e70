//! A store that replicas reach through a network: it hears questions in any order, and answers may be lost.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use outlive_core::Time;
use outlive_core::session_record::{Part, Write};
use outlive_core::tenure::{Admission, Claim, LeaseTable, Owner, Tenancy, Tenure};

/// What a store is asked.
#[derive(Clone, Debug)]
pub enum Ask {
    Renew(Owner, bool),
    Begin(u32, &'static str, Owner, Bytes),
    Claim(u32, &'static str, Owner),
    Write(u32, Tenure, u64, Vec<Write>),
    /// A session is given back.
    Release(u32, Tenure),
    /// An owner ends.
    Leave(Owner),
}

/// What it says.
#[derive(Clone, Debug)]
pub enum Said {
    Renewed(bool),
    Begun(Tenure),
    Granted(Tenure, Vec<(Part, Bytes)>),
    Held(Owner),
    Absent,
    Written(bool),
    Noted,
}

#[derive(Clone, Debug)]
pub struct Kept {
    pub principal: &'static str,
    pub tenancy: Tenancy,
    pub parts: BTreeMap<Part, Bytes>,
}

#[derive(Clone, Debug, Default)]
pub struct Store {
    pub leases: LeaseTable,
    pub sessions: BTreeMap<u32, Kept>,
}

impl Store {
    pub fn hear(&mut self, ask: Ask, length: Duration, now: Time) -> Said {
        match ask {
            Ask::Renew(owner, begins) => {
                Said::Renewed(self.leases.renew(owner, begins, length, now))
            }
            Ask::Begin(id, principal, by, head) => {
                let (tenancy, tenure) = Tenancy::begun(by);
                let parts = BTreeMap::from([(Part::Head, head)]);
                let kept = Kept {
                    principal,
                    tenancy,
                    parts,
                };
                // A question that was given up may arrive after all.
                self.sessions.entry(id).or_insert(kept);
                Said::Begun(tenure)
            }
            Ask::Claim(id, principal, by) => {
                let leases = &self.leases;
                let kept = self.sessions.get_mut(&id);
                let Some(kept) = kept.filter(|kept| kept.principal == principal) else {
                    return Said::Absent;
                };
                match kept.tenancy.claim(by, |owner| leases.lives(owner, now)) {
                    Claim::Held(owner) => Said::Held(owner),
                    Claim::Granted(tenure) => {
                        let parts = kept.parts.iter().map(|(part, it)| (*part, it.clone()));
                        Said::Granted(tenure, parts.collect())
                    }
                }
            }
            Ask::Write(id, tenure, number, writes) => self.write(id, tenure, number, writes),
            Ask::Release(id, tenure) => {
                if let Some(kept) = self.sessions.get_mut(&id) {
                    kept.tenancy.release(tenure);
                }
                Said::Noted
            }
            Ask::Leave(owner) => {
                self.leases.release(owner);
                Said::Noted
            }
        }
    }

    fn write(&mut self, id: u32, tenure: Tenure, number: u64, writes: Vec<Write>) -> Said {
        let Some(kept) = self.sessions.get_mut(&id) else {
            return Said::Written(false);
        };
        match kept.tenancy.admit(tenure, number) {
            Admission::Fenced => return Said::Written(false),
            Admission::Known => {}
            Admission::New => {
                for (part, bytes) in writes {
                    match bytes {
                        Some(bytes) => drop(kept.parts.insert(part, bytes)),
                        None => drop(kept.parts.remove(&part)),
                    }
                }
            }
        }
        Said::Written(true)
    }
}
