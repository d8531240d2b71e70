//! A request of the host in a snapshot.

use super::{Entry, Place, RequestKey};
use crate::event::Unexecuted;
use crate::message::Kind;
use crate::policy::{Retry, Terms};
use crate::snapshot::codec::{Read, Reader, Writer};
use crate::snapshot::{MANY, ResumeError};

/// What is known of a request that was left in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    /// The server may have it.
    pub(crate) taken: bool,
    /// The server has refused it unexecuted.
    pub(crate) rejected: bool,
    /// With this status, as if it had forgotten the session.
    pub(crate) doubted: Option<u16>,
}

impl Left {
    pub(crate) fn write(&self, out: &mut Writer) {
        out.flag(self.taken);
        out.flag(self.rejected);
        out.maybe(self.doubted, |out, status| out.number(status.into()));
    }

    pub(crate) fn read(from: &mut Reader) -> Read<Left> {
        Ok(Left {
            taken: from.flag("a request in flight")?,
            rejected: from.flag("a request in flight")?,
            doubted: from.maybe("a request in flight", read_status)?,
        })
    }
}

impl RequestKey {
    pub(crate) fn number(self) -> u64 {
        self.0
    }

    pub(crate) fn read(from: &mut Reader) -> Read<RequestKey> {
        from.number("the number of a request").map(RequestKey)
    }
}

impl Entry {
    /// Where it is, is told by where it is written. Its clock, if it stands, runs on: the person who was asked is asked
    /// no more.
    pub(crate) fn write(&self, out: &mut Writer) {
        out.number(self.key.number());
        out.message(&self.message);
        out.past(self.accepted);
        out.past(self.placed);
        out.maybe(self.waited, Writer::past);
        out.maybe(self.due, Writer::coming);
        out.duration(self.stood);
        out.maybe(self.terms.idle, Writer::duration);
        out.maybe(self.terms.total, Writer::duration);
        out.maybe(self.terms.retry, |out, retry| {
            out.number(match retry {
                Retry::Never => 0,
                Retry::Safe => 1,
                Retry::Always => 2,
            });
        });
        for count in [self.deaths, self.refusals, self.resends] {
            out.number(count.min(MANY).into());
        }
        out.maybe(self.refused, |out, status| out.number(status.into()));
        out.maybe(self.unexecuted, |out, why| {
            out.flag(why == Unexecuted::Refused);
        });
        for flag in [
            self.disowned,
            self.verify,
            self.acknowledged,
            self.superseded,
        ] {
            out.flag(flag);
        }
        out.maybe(self.progress, |out, progress| out.word(progress.to_bits()));
        out.maybe(self.progress_before, |out, progress| {
            out.word(progress.to_bits());
        });
    }

    /// A request that waits since it was put where it was.
    pub(crate) fn read(from: &mut Reader) -> Read<Entry> {
        const WHAT: &str = "a request";
        let key = RequestKey::read(from)?;
        let message = from.message(Kind::Request, WHAT)?;
        let accepted = from.past(WHAT)?;
        let placed = from.past(WHAT)?;
        let waited = from.maybe(WHAT, |from| from.past(WHAT))?;
        Ok(Entry {
            message,
            key,
            place: Place::Held {
                since: waited.unwrap_or(placed),
            },
            accepted,
            placed,
            waited,
            due: from.maybe(WHAT, |from| from.coming(WHAT))?,
            frozen: None,
            stood: from.duration(WHAT)?,
            terms: Terms {
                idle: from.maybe(WHAT, |from| from.duration(WHAT))?,
                total: from.maybe(WHAT, |from| from.duration(WHAT))?,
                retry: from.maybe(WHAT, read_retry)?,
            },
            deaths: from.few(WHAT)?,
            refusals: from.few(WHAT)?,
            resends: from.few(WHAT)?,
            refused: from.maybe(WHAT, read_status)?,
            unexecuted: from.maybe(WHAT, |from| {
                Ok(match from.flag(WHAT)? {
                    true => Unexecuted::Refused,
                    false => Unexecuted::Unread,
                })
            })?,
            challenged: false,
            disowned: from.flag(WHAT)?,
            verify: from.flag(WHAT)?,
            acknowledged: from.flag(WHAT)?,
            superseded: from.flag(WHAT)?,
            progress: from.maybe(WHAT, read_progress)?,
            progress_before: from.maybe(WHAT, read_progress)?,
        })
    }
}

fn read_status(from: &mut Reader) -> Read<u16> {
    let status = from.number("a status")?;
    u16::try_from(status).map_err(|_| ResumeError::Malformed("a status"))
}

fn read_retry(from: &mut Reader) -> Read<Retry> {
    Ok(match from.number("the terms of a request")? {
        0 => Retry::Never,
        1 => Retry::Safe,
        2 => Retry::Always,
        _ => return Err(ResumeError::Malformed("the terms of a request")),
    })
}

fn read_progress(from: &mut Reader) -> Read<f64> {
    let progress = f64::from_bits(from.word("the progress of a request")?);
    match progress.is_nan() {
        true => Err(ResumeError::Malformed("the progress of a request")),
        false => Ok(progress),
    }
}
