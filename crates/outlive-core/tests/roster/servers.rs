//! Servers to make rosters from.

use std::sync::Arc;

use bytes::Bytes;
use outlive_core::gateway::TargetId;
use outlive_core::protocol::List;
use outlive_core::roster::{Entry, Item, Naming, Offer, Roster, View};

/// An offer with everything declared and these lists.
pub fn offer(lists: &[(List, &[&str])]) -> Offer {
    let capabilities = br#"{"tools":{},"prompts":{},"resources":{"subscribe":true}}"#;
    let empty = Offer::new("2025-11-25", b"{}", capabilities, None);
    lists.iter().fold(empty, |offer, (list, items)| {
        let items = items.iter().map(|json| item(*list, json)).collect();
        offer.with_list(*list, items)
    })
}

pub fn item(list: List, json: &str) -> Item {
    let item = Item::read(list, Bytes::copy_from_slice(json.as_bytes()));
    item.unwrap_or_else(|| panic!("no entry: {json}"))
}

/// An entry of a list that is nothing but a key.
pub fn keyed(list: List, key: &str) -> String {
    let field = list.key();
    let key = serde_json::Value::from(key);
    format!(r#"{{"{field}":{key}}}"#)
}

/// A server with these tools.
pub fn tools(at: usize, name: &str, tools: &[&str]) -> Entry {
    with(at, name, List::Tools, tools)
}

/// A server with entries of these keys.
pub fn with(at: usize, name: &str, list: List, keys: &[&str]) -> Entry {
    let items: Vec<String> = keys.iter().map(|key| keyed(list, key)).collect();
    let items: Vec<&str> = items.iter().map(String::as_str).collect();
    server(at, name, Some(offer(&[(list, &items)])))
}

pub fn server(at: usize, name: &str, offer: Option<Offer>) -> Entry {
    Entry {
        target: TargetId(at),
        name: name.into(),
        prefix: None,
        filter: Default::default(),
        eager: false,
        offer: offer.map(Arc::new),
        pinned: None,
    }
}

/// The roster of these with everything as it is by default.
pub fn roster(servers: &[Entry]) -> Roster {
    Roster::new(servers, &Naming::default(), &View::default())
}

/// The keys of what is listed.
pub fn keys(roster: &Roster, list: List) -> Vec<String> {
    let key = |json: &Bytes| {
        let value: serde_json::Value = serde_json::from_slice(json).expect("JSON");
        value[list.key()].as_str().expect("a key").to_string()
    };
    roster.items(list).iter().map(key).collect()
}
