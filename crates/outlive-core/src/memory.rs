//! What the host believes it has: everything a new server must be told before it can stand in for
//! the old one (invariant 9).

mod encoding;

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::bounded::RecentSet;
use crate::catalog::{Catalog, Page};
use crate::event::Software;
use crate::ledger::RequestKey;
use crate::message::{Id, Message};
use crate::protocol::{Era, List, meta};

/// A request to subscribe that is longer than this is not remembered.
const LONGEST_SUBSCRIPTION: usize = 16 << 10;

#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    /// None until something has told.
    pub(crate) era: Option<Era>,
    /// The host's `initialize` request, once a server has accepted it.
    pub(crate) initialize: Option<Message>,
    /// The protocol version that was agreed on then.
    pub(crate) version: Option<String>,
    /// The server's name and version, for people.
    pub(crate) server: Option<Software>,
    /// The host's `notifications/initialized`.
    pub(crate) initialized: Option<Message>,
    /// The host's last `logging/setLevel` that was accepted.
    pub(crate) level: Option<Asked>,
    /// The host's accepted `resources/subscribe` requests by URI.
    pub(crate) subscriptions: BTreeMap<String, Asked>,
    /// Who the host says it is on every request (modern), as a `_meta` object.
    pub(crate) modern_meta: Option<String>,
    pub(crate) catalog: Catalog,
    /// Progress tokens of requests that became tasks: progress goes on after the answer.
    pub(crate) task_tokens: RecentSet<Id>,
}

/// What a successful handshake tells.
#[derive(Debug, Default)]
pub(crate) struct Welcome {
    pub(crate) version: Option<String>,
    pub(crate) server: Option<Software>,
    /// Modern: the versions the server can speak.
    pub(crate) supported: Option<Vec<String>>,
}

impl Welcome {
    /// Reads the result of `initialize` or `server/discover`.
    pub(crate) fn read(result: &[u8]) -> Welcome {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Raw {
            protocol_version: Option<Value>,
            server_info: Option<Value>,
            supported_versions: Option<Value>,
            #[serde(rename = "_meta")]
            meta: Option<Value>,
        }
        let Ok(raw) = serde_json::from_slice::<Raw>(result) else {
            return Welcome::default();
        };
        let info = raw
            .server_info
            .or_else(|| raw.meta.as_ref()?.get(meta::SERVER_INFO).cloned());
        let server = info.and_then(|info| Software::read(&info));
        Welcome {
            version: raw
                .protocol_version
                .and_then(|v| v.as_str().map(str::to_string)),
            server,
            supported: raw
                .supported_versions
                .and_then(|v| serde_json::from_value(v).ok()),
        }
    }
}

/// A request that a new server has to be told too.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    key: RequestKey,
    pub(crate) request: Message,
}

impl Memory {
    /// A request of the host has been answered with a result: learn from it. Tells of a list that the host
    /// has now put together from pages of more than one server.
    pub(crate) fn learn(
        &mut self,
        key: RequestKey,
        request: &Message,
        result: &[u8],
        most_subscriptions: usize,
    ) -> Option<List> {
        let mut torn = None;
        let asked = || Asked {
            key,
            request: request.clone(),
        };
        match request.method_bytes() {
            b"initialize" => {
                let welcome = Welcome::read(result);
                // A handshake begins a new session: what was asked for before it is void. What was asked for after it
                // may have been answered before it.
                self.level = self.level.take().filter(|level| level.key > key);
                self.subscriptions.retain(|_, it| it.key > key);
                self.era = Some(Era::Legacy);
                self.initialize = Some(request.clone());
                self.version = welcome.version;
                self.server = welcome.server;
            }
            b"server/discover" if self.era != Some(Era::Legacy) => {
                self.era = Some(Era::Modern);
                self.server = Welcome::read(result).server;
            }
            b"logging/setLevel" => self.level = Some(asked()),
            b"resources/subscribe" => {
                if let Some(uri) = request.uri()
                    && self.subscriptions.len() < most_subscriptions
                    && request.bytes().len() <= LONGEST_SUBSCRIPTION
                {
                    self.subscriptions.insert(uri.into_owned(), asked());
                }
            }
            b"resources/unsubscribe" => {
                if let Some(uri) = request.uri() {
                    self.subscriptions.remove(&*uri);
                }
            }
            method => {
                if let Some(list) = List::of_method(method)
                    && let Some(page) = Page::read(list, result)
                {
                    // A cursor that is no text is none that a server has given.
                    let cursor = request.cursor().then(|| request.cursor_text());
                    let cursor = cursor.map(|text| text.unwrap_or_default());
                    let mixed = self.catalog.host_saw(list, cursor.as_deref(), page);
                    torn = mixed.then_some(list);
                }
            }
        }
        if request.has_task()
            && let Some(token) = request.meta_progress_token()
        {
            self.task_tokens.insert(token);
        }
        if self.era.is_none() && request.is_modern() {
            self.era = Some(Era::Modern);
        }
        torn
    }

    /// A modern request of the host went by: remember who it says it is, for our own requests.
    pub(crate) fn note_meta(&mut self, request: &Message) {
        if self.modern_meta.is_some() || !request.is_modern() {
            return;
        }
        self.modern_meta = meta::identity(request);
    }

    /// The modern protocol version the host speaks.
    pub(crate) fn modern_version(&self) -> Option<String> {
        let identity: Value = serde_json::from_str(self.modern_meta.as_deref()?).ok()?;
        identity[meta::PROTOCOL_VERSION]
            .as_str()
            .map(str::to_string)
    }

    /// A request of our own.
    pub(crate) fn request(&self, id: &Id, method: &str, cursor: Option<&str>) -> Message {
        let mut params = Vec::new();
        if self.era == Some(Era::Modern)
            && let Some(meta) = &self.modern_meta
        {
            params.push(format!("\"_meta\":{meta}"));
        }
        if let Some(cursor) = cursor {
            params.push(format!("\"cursor\":{}", json!(cursor)));
        }
        let params = match params.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", params.join(",")),
        };
        Message::request(id.to_json().as_bytes(), method, params.as_bytes())
    }
}

/// What a `subscriptions/listen` request asks for (2026-07-28).
#[derive(Debug, Default)]
pub(crate) struct Filter {
    fields: BTreeSet<String>,
    pub(crate) resources: Vec<String>,
}

impl Filter {
    pub(crate) fn read(params: &[u8]) -> Filter {
        let mut filter = Filter::default();
        let params: Value = serde_json::from_slice(params).unwrap_or_default();
        let Some(wanted) = params["notifications"].as_object() else {
            return filter;
        };
        for (field, value) in wanted {
            if value == &Value::Bool(true) {
                filter.fields.insert(field.clone());
            }
        }
        if let Some(uris) = wanted
            .get("resourceSubscriptions")
            .and_then(Value::as_array)
        {
            filter.resources = uris
                .iter()
                .filter_map(|u| u.as_str().map(str::to_string))
                .collect();
        }
        filter
    }

    pub(crate) fn wants(&self, list: List) -> bool {
        self.fields.contains(list.filter_field())
    }
}

/// The result of `initialize` or `server/discover` with `listChanged` promised for every list the
/// server offers: we keep that promise after a restart, so the host must listen. Not another byte
/// is touched; `None` if there is nothing to change.
pub(crate) fn promise_list_changed(result: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Object<'a> {
        #[serde(borrow)]
        capabilities: BTreeMap<&'a str, &'a RawValue>,
    }
    let text = std::str::from_utf8(result).ok()?;
    let parsed: Object<'_> = serde_json::from_str(text).ok()?;
    let offset = |part: &str| part.as_ptr() as usize - text.as_ptr() as usize;
    let mut edits: Vec<(usize, usize, &str)> = Vec::new();
    for name in ["tools", "prompts", "resources"] {
        let Some(capability) = parsed.capabilities.get(name).map(|raw| raw.get()) else {
            continue;
        };
        let Ok(fields) = serde_json::from_str::<BTreeMap<&str, &RawValue>>(capability) else {
            continue;
        };
        match fields.get("listChanged").map(|raw| raw.get()) {
            Some("true") => {}
            Some(value) => edits.push((offset(value), value.len(), "true")),
            None if fields.is_empty() => {
                edits.push((offset(capability) + 1, 0, r#""listChanged":true"#));
            }
            None => edits.push((offset(capability) + 1, 0, r#""listChanged":true,"#)),
        }
    }
    if edits.is_empty() {
        return None;
    }
    edits.sort_unstable();
    let mut out = String::with_capacity(text.len() + 64);
    let mut copied = 0;
    for (at, len, new) in edits {
        out.push_str(&text[copied..at]);
        out.push_str(new);
        copied = at + len;
    }
    out.push_str(&text[copied..]);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn promise(capabilities: &str) -> Option<String> {
        let result = format!(r#"{{"capabilities":{capabilities},"x":"listChanged"}}"#);
        promise_list_changed(result.as_bytes())
    }

    fn with(capabilities: &str) -> Option<String> {
        Some(format!(
            r#"{{"capabilities":{capabilities},"x":"listChanged"}}"#
        ))
    }

    #[test]
    fn list_changed_is_promised_for_what_is_offered_and_nothing_else_changes() {
        assert_eq!(
            promise(r#"{"tools":{}}"#),
            with(r#"{"tools":{"listChanged":true}}"#)
        );
        assert_eq!(
            promise(r#"{"resources": { "subscribe":true },"tools":{"listChanged" : false}}"#),
            with(
                r#"{"resources": {"listChanged":true, "subscribe":true },"tools":{"listChanged" : true}}"#
            )
        );
        assert_eq!(
            promise(r#"{"prompts":{"listChanged":null},"logging":{}}"#),
            with(r#"{"prompts":{"listChanged":true},"logging":{}}"#)
        );
        assert_eq!(
            promise(r#"{"tools":{"listChanged":true},"logging":{}}"#),
            None
        );
        assert_eq!(promise("{}"), None);
        assert_eq!(promise("[]"), None);
        assert_eq!(promise(r#"{"tools":7}"#), None);
    }

    #[test]
    fn a_filter_tells_what_is_wanted() {
        let filter = Filter::read(
            br#"{"notifications":{"toolsListChanged":true,"promptsListChanged":false,"resourceSubscriptions":["a","b"]}}"#,
        );
        assert!(
            filter.wants(List::Tools)
                && !filter.wants(List::Prompts)
                && !filter.wants(List::Resources)
        );
        assert_eq!(filter.resources, ["a", "b"]);
        assert!(!Filter::read(b"{}").wants(List::Tools));
    }

    #[test]
    fn a_welcome_is_read_leniently() {
        let w =
            Welcome::read(br#"{"protocolVersion":"v","serverInfo":{"name":"n","version":"1"}}"#);
        assert_eq!(
            (w.version.as_deref(), w.server.map(|s| s.to_string())),
            (Some("v"), Some("n 1".to_string()))
        );
        let w = Welcome::read(br#"{"serverInfo":{"name":"n"},"supportedVersions":["a"]}"#);
        assert_eq!(
            (w.version, w.server.map(|s| s.to_string()), w.supported),
            (None, Some("n".to_string()), Some(vec!["a".to_string()]))
        );
        let w = Welcome::read(br#"{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"m"}}}"#);
        assert_eq!(w.server.map(|s| s.to_string()).as_deref(), Some("m"));
        assert!(Welcome::read(b"7").version.is_none());
    }
}
