//! Who the client is and what it can do: once per connection (legacy) or on every request
//! (modern).

use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::event::Software;
use crate::message::Message;
use crate::protocol::version::{self, MODERN};
use crate::protocol::{Era, List, meta};

use super::refusal::ServerRefusal;
use super::request::Peer;
use super::{Level, Server, ServerEvent};

/// Metadata longer than this is read anew on every request.
const LONGEST_KNOWN: usize = 4 << 10;

/// What the server has declared and the machine acts on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Features {
    pub(super) logging: bool,
    pub(super) subscribe: bool,
    tools_changed: bool,
    prompts_changed: bool,
    resources_changed: bool,
}

impl Features {
    pub(super) fn read(capabilities: &[u8]) -> Features {
        let it: Value = serde_json::from_slice(capabilities).unwrap_or_default();
        Features {
            logging: it["logging"].is_object(),
            subscribe: it["resources"]["subscribe"] == true,
            tools_changed: it["tools"]["listChanged"] == true,
            prompts_changed: it["prompts"]["listChanged"] == true,
            resources_changed: it["resources"]["listChanged"] == true,
        }
    }

    /// Whether clients are told of changes in this list.
    pub(super) fn announces(&self, list: List) -> bool {
        match list {
            List::Tools => self.tools_changed,
            List::Prompts => self.prompts_changed,
            List::Resources | List::Templates => self.resources_changed,
        }
    }

    /// Whether there is anything to listen to.
    pub(super) fn announces_anything(&self) -> bool {
        self.subscribe || List::ALL.into_iter().any(|list| self.announces(list))
    }
}

/// What the metadata of a modern request says.
#[derive(Clone, Debug)]
pub(crate) struct Introduction {
    meta: Bytes,
    pub(super) peer: Arc<Peer>,
    pub(crate) log_level: Option<Level>,
}

impl Introduction {
    pub(crate) fn read(meta: &[u8]) -> Result<Introduction, ServerRefusal> {
        #[derive(Default, Deserialize)]
        struct Fields<'a> {
            #[serde(borrow, rename = "io.modelcontextprotocol/protocolVersion")]
            version: Option<&'a RawValue>,
            #[serde(borrow, rename = "io.modelcontextprotocol/clientInfo")]
            info: Option<&'a RawValue>,
            #[serde(borrow, rename = "io.modelcontextprotocol/clientCapabilities")]
            capabilities: Option<&'a RawValue>,
            #[serde(borrow, rename = "io.modelcontextprotocol/logLevel")]
            level: Option<&'a RawValue>,
        }
        let text = |raw: Option<&RawValue>| {
            raw.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok())
        };
        let object = |raw: Option<&RawValue>| {
            let raw = raw?.get();
            raw.starts_with('{')
                .then(|| Bytes::copy_from_slice(raw.as_bytes()))
        };
        let wrong = |words: &str| {
            Err(ServerRefusal::invalid_params(format!(
                "The request was not executed: {words}."
            )))
        };
        let Ok(fields) = serde_json::from_slice::<Fields<'_>>(meta) else {
            return wrong("its `_meta` cannot be read");
        };
        let Some(version) = text(fields.version) else {
            return wrong("the protocol version in its `_meta` is not a string");
        };
        if version != MODERN {
            return Err(ServerRefusal::unsupported_version(&version));
        }
        let Some(capabilities) = object(fields.capabilities) else {
            return wrong(&format!(
                "its `_meta` lacks the object `{}`",
                meta::CLIENT_CAPABILITIES
            ));
        };
        let log_level = match fields.level {
            None => None,
            level => match text(level).as_deref().and_then(Level::of) {
                Some(level) => Some(level),
                None => return wrong("the log level in its `_meta` is none"),
            },
        };
        let peer = Peer {
            version: version.into(),
            info: object(fields.info),
            capabilities,
        };
        Ok(Introduction {
            meta: Bytes::copy_from_slice(meta),
            peer: peer.into(),
            log_level,
        })
    }
}

impl Server {
    /// Who sends this modern request. Most clients say the same on every one, so it is read once.
    pub(super) fn introduction(
        &mut self,
        message: &Message,
    ) -> Result<Introduction, ServerRefusal> {
        let meta = message.meta().unwrap_or_default();
        if let Some(known) = self.known.as_ref().filter(|known| known.meta == meta) {
            return Ok(known.clone());
        }
        let introduction = Introduction::read(meta)?;
        if meta.len() <= LONGEST_KNOWN {
            self.known = Some(introduction.clone());
        }
        Ok(introduction)
    }

    /// `initialize`: the client's version if we speak it, else our newest (2025-11-25, lifecycle).
    pub(super) fn initialize(&mut self, message: &Message) {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Params<'a> {
            protocol_version: Option<Value>,
            #[serde(borrow)]
            capabilities: Option<&'a RawValue>,
            #[serde(borrow)]
            client_info: Option<&'a RawValue>,
        }
        if self.peer.is_some() {
            return self.refuse(message, &ServerRefusal::initialized_before());
        }
        let params: Params<'_> =
            serde_json::from_slice(message.params().unwrap_or(b"{}")).unwrap_or_default();
        let wanted = params.protocol_version.as_ref().and_then(Value::as_str);
        let version = version::LEGACY
            .into_iter()
            .find(|known| Some(*known) == wanted)
            .unwrap_or(Era::Legacy.newest());
        let copy = |raw: &RawValue| Bytes::copy_from_slice(raw.get().as_bytes());
        let peer = Peer {
            version: version.into(),
            info: params.client_info.map(copy),
            capabilities: params.capabilities.map_or(Bytes::from_static(b"{}"), copy),
        };
        let info = peer
            .info
            .as_deref()
            .and_then(|info| serde_json::from_slice(info).ok());
        let client = info
            .as_ref()
            .and_then(Software::read)
            .map(|software| software.to_string());
        self.peer = Some(peer.into());
        let result = format!(
            r#"{{"protocolVersion":"{version}","capabilities":{},"serverInfo":{}{}}}"#,
            text(&self.policy.capabilities),
            text(&self.policy.info),
            self.instructions()
        );
        self.answer_plainly(message, &result);
        self.emit(ServerEvent::Connected {
            client,
            version: version.into(),
        });
    }

    /// `server/discover` (2026-07-28). What it says may be different after a restart, so it is
    /// fresh only for now.
    pub(super) fn discover(&mut self, message: &Message) {
        let about = format!(
            r#""supportedVersions":["{MODERN}"],"capabilities":{},"ttlMs":0,"cacheScope":"private""#,
            text(&self.policy.capabilities),
        );
        let result = format!(
            r#"{{"resultType":"complete",{about},"_meta":{{"{}":{}}}{}}}"#,
            meta::SERVER_INFO,
            text(&self.policy.info),
            self.instructions()
        );
        self.answer_plainly(message, &result);
    }

    fn instructions(&self) -> String {
        let member = |words: &Bytes| format!(r#","instructions":{}"#, text(words));
        self.policy
            .instructions
            .as_ref()
            .map_or_else(String::new, member)
    }

    /// `logging/setLevel` (legacy).
    pub(super) fn set_level(&mut self, message: &Message) {
        match message.level().as_deref().and_then(Level::of) {
            Some(level) => {
                self.level = Some(level);
                self.answer_plainly(message, "{}");
            }
            None => {
                let levels = Level::ALL.map(Level::as_str).join(", ");
                let sentence = format!("`level` must be one of {levels}.");
                self.refuse(message, &ServerRefusal::invalid_params(sentence));
            }
        }
    }
}

/// Whether a client that has declared these capabilities may be asked this; if not, what it would
/// have to declare, as `requiredCapabilities` (2026-07-28; 2025-11-25, capability negotiation).
pub(crate) fn lacking(capabilities: &[u8], method: &str, params: &[u8]) -> Option<Value> {
    let has: Value = serde_json::from_slice(capabilities).unwrap_or_default();
    let params: Value = serde_json::from_slice(params).unwrap_or_default();
    match method {
        "roots/list" => (!has["roots"].is_object()).then(|| json!({"roots": {}})),
        "sampling/createMessage" => {
            let tools = params.get("tools").is_some();
            match (tools, has["sampling"].is_object()) {
                (false, false) => Some(json!({"sampling": {}})),
                (true, _) if !has["sampling"]["tools"].is_object() => {
                    Some(json!({"sampling": {"tools": {}}}))
                }
                _ => None,
            }
        }
        "elicitation/create" => {
            let mode = params["mode"].as_str().unwrap_or("form");
            let modes = &has["elicitation"];
            // An empty object stands for forms alone.
            let declared = modes[mode].is_object()
                || mode == "form" && modes.as_object().is_some_and(|modes| modes.is_empty());
            (!declared).then(|| match modes.is_object() || mode != "form" {
                true => json!({"elicitation": {mode: {}}}),
                false => json!({"elicitation": {}}),
            })
        }
        _ => None,
    }
}

fn text(json: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(json)
}
