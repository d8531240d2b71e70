//! What servers call things, at their worst.

use outlive_core::protocol::List;
use outlive_core::roster::{Offer, read_page};
use serde_json::{Value, json};

pub const SERVERS: [&str; 5] = ["a", "b", "a__x", "git hub", "A"];

/// The one that some views hide.
pub const HIDDEN: &str = "y";

const TOOLS: [&str; 8] = [
    "x",
    HIDDEN,
    "a b",
    "a_b",
    "x__x",
    "\u{e9}\u{202e}",
    "",
    "outlive_is_a_name_that_is_much_longer_than_any_client_would_accept_it",
];
const PROMPTS: [&str; 3] = ["p", "x", "q q"];
const RESOURCES: [&str; 4] = ["x://1", "x://2", "outlive:b:x://1", "y://3"];
const TEMPLATES: [&str; 3] = ["x://{id}", "y://{a}/{b}", "x://{+path}"];

pub fn all(list: List) -> &'static [&'static str] {
    match list {
        List::Tools => &TOOLS,
        List::Prompts => &PROMPTS,
        List::Resources => &RESOURCES,
        List::Templates => &TEMPLATES,
    }
}

/// Entries of a server, as it lists them. Each says whose it is, what it is called there, and which version it is.
pub fn items(server: usize, version: usize, list: List, places: &[usize]) -> Vec<Value> {
    let item = |place: &usize| {
        let name = all(list)[*place];
        json!({list.key(): name, "of": server, "was": name, "v": version})
    };
    places.iter().map(item).collect()
}

/// What a server declares that lacks this much.
pub fn capabilities(lacks: u8) -> Value {
    let mut has = json!({});
    for (bit, name) in ["prompts", "resources", "logging", "tools"]
        .into_iter()
        .enumerate()
    {
        // Few have no tools.
        let lacked = lacks >> bit & 1 == 1 && (bit < 3 || lacks & 0x30 == 0);
        if !lacked {
            has[name] = match name {
                "resources" => json!({"subscribe": true}),
                _ => json!({}),
            };
        }
    }
    has
}

pub fn hello(lacks: u8) -> Value {
    json!({"protocolVersion": "2025-11-25", "capabilities": capabilities(lacks),
        "serverInfo": {"name": "s", "version": "1"}})
}

/// What a server offers, whole.
pub fn offer(server: usize, version: usize, lists: &[Vec<usize>; 4], lacks: u8) -> Offer {
    let mut offer = Offer::of_handshake(hello(lacks).to_string().as_bytes()).expect("an offer");
    for list in List::ALL {
        if offer.offers(list) {
            let page = json!({list.member(): items(server, version, list, &lists[list as usize])})
                .to_string();
            let (items, _) = read_page(list, page.as_bytes()).expect("a page");
            offer.set_list(list, items);
        }
    }
    offer
}
