//! The memory in a snapshot.

use serde_json::{Map, Value};

use super::{Asked, Memory};
use crate::bounded::RecentSet;
use crate::catalog::Catalog;
use crate::event::Software;
use crate::ledger::RequestKey;
use crate::message::{Kind, Message};
use crate::protocol::Era;
use crate::snapshot::ResumeError;
use crate::snapshot::codec::{Read, Reader, Writer};

impl Memory {
    pub(crate) fn write(&self, out: &mut Writer) {
        out.maybe(self.era, |out, era| out.flag(era == Era::Modern));
        out.maybe(self.initialize.as_ref(), Writer::message);
        out.maybe(self.version.as_deref(), Writer::text);
        out.maybe(self.server.as_ref(), |out, server| {
            out.text(&server.name);
            out.maybe(server.version.as_deref(), Writer::text);
        });
        out.maybe(self.initialized.as_ref(), Writer::message);
        out.maybe(self.level.as_ref(), write_asked);
        out.all(self.subscriptions.values(), write_asked);
        out.maybe(self.modern_meta.as_deref(), Writer::text);
        self.catalog.write(out);
        out.all(self.task_tokens.iter(), Writer::id);
    }

    pub(crate) fn read(from: &mut Reader) -> Read<Memory> {
        let era = |modern| match modern {
            true => Era::Modern,
            false => Era::Legacy,
        };
        Ok(Memory {
            era: from.maybe("its era", |from| from.flag("its era").map(era))?,
            initialize: from.maybe("its handshake", |from| {
                from.message_of(Kind::Request, "initialize", "its handshake")
            })?,
            version: from.maybe("its version", |from| from.text("its version"))?,
            server: from.maybe("its server", |from| {
                Ok(Software {
                    name: from.text("its server")?,
                    version: from.maybe("its server", |from| from.text("its server"))?,
                })
            })?,
            initialized: from.maybe("the end of its handshake", |from| {
                let method = "notifications/initialized";
                from.message_of(Kind::Notification, method, "the end of its handshake")
            })?,
            level: from.maybe("its log level", |from| {
                read_asked(from, "logging/setLevel", "its log level")
            })?,
            subscriptions: {
                let method = "resources/subscribe";
                let all = from.all("a subscription", |from| {
                    let asked = read_asked(from, method, "a subscription")?;
                    let uri = asked.request.uri().map(|uri| uri.into_owned());
                    Ok((uri.ok_or(ResumeError::Malformed("a subscription"))?, asked))
                })?;
                all.into_iter().collect()
            },
            modern_meta: from.maybe("who its host is", read_meta)?,
            catalog: Catalog::read(from)?,
            task_tokens: {
                let mut tokens = RecentSet::default();
                let all = from.all("a token", |from| from.id("a token"))?;
                all.into_iter().for_each(|token| tokens.insert(token));
                tokens
            },
        })
    }

    /// The messages in it.
    pub(crate) fn messages(&self) -> impl Iterator<Item = &Message> {
        let asked = self.level.iter().chain(self.subscriptions.values());
        let asked = asked.map(|asked| &asked.request);
        self.initialize.iter().chain(&self.initialized).chain(asked)
    }
}

fn write_asked(out: &mut Writer, asked: &Asked) {
    out.number(asked.key.number());
    out.message(&asked.request);
}

fn read_asked(from: &mut Reader, method: &str, what: &'static str) -> Read<Asked> {
    Ok(Asked {
        key: RequestKey::read(from)?,
        request: from.message_of(Kind::Request, method, what)?,
    })
}

/// It becomes part of messages as it is, so it has to be an object, on one line.
fn read_meta(from: &mut Reader) -> Read<String> {
    let text = from.text("who its host is")?;
    let meta = serde_json::from_str::<Map<String, Value>>(&text);
    let meta = meta.map_err(|_| ResumeError::Malformed("who its host is"))?;
    Ok(Value::Object(meta).to_string())
}
