//! Messages as any peer may write them, for property tests.

use proptest::prelude::*;

use crate::protocol::meta;

/// A JSON value with everything a serialiser may choose: key order, repeats, spaces, escapes.
#[derive(Clone, Debug)]
enum Json {
    Scalar(String),
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

const KEYS: &[&str] = &[
    "jsonrpc",
    "id",
    "method",
    "params",
    "result",
    "error",
    "requestId",
    "progressToken",
    "name",
    "uri",
    "level",
    "cursor",
    "task",
    "_meta",
    meta::PROTOCOL_VERSION,
    meta::SUBSCRIPTION_ID,
    "",
    "i",
    "idd",
    "\"id",
    "\\",
];

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        9 => prop::sample::select(KEYS).prop_map(str::to_owned),
        1 => any::<String>(),
    ]
}

fn scalar() -> impl Strategy<Value = Json> {
    prop_oneof![
        prop::sample::select(
            &[
                "null", "true", "false", "0", "-0", "1.0", "1e2", "-2.50", "0.5e-7"
            ][..]
        )
        .prop_map(|s| Json::Scalar(s.to_owned())),
        any::<i64>().prop_map(|n| Json::Scalar(n.to_string())),
        any::<u64>().prop_map(|n| Json::Scalar(n.to_string())),
        (0..100u32).prop_map(|n| Json::Scalar(n.to_string())),
        key().prop_map(Json::Text),
        any::<String>().prop_map(Json::Text),
    ]
}

fn json() -> impl Strategy<Value = Json> {
    scalar().prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..5).prop_map(Json::Array),
            4 => prop::collection::vec((key(), inner), 0..7).prop_map(Json::Object),
        ]
    })
}

/// Scalars, most of which can be ids.
pub(crate) fn id_json() -> impl Strategy<Value = String> {
    scalar().prop_map(|json| Writer::write(&json, &[u8::MAX]))
}

/// Lines that are JSON objects and mostly messages, with members in any order.
pub(crate) fn line() -> impl Strategy<Value = String> {
    let choices = prop::collection::vec(any::<u8>(), 1..40);
    (object(), choices).prop_map(|(json, choices)| Writer::write(&json, &choices))
}

fn object() -> impl Strategy<Value = Json> {
    let member = |key: &'static str, value: BoxedStrategy<Json>| {
        prop::option::of(value).prop_map(move |v| v.map(|v| (key.to_owned(), v)))
    };
    let members = (
        member("jsonrpc", Just(Json::Text("2.0".into())).boxed()),
        member("id", scalar().boxed()),
        member("method", key().prop_map(Json::Text).boxed()),
        member("params", json().boxed()),
        member("result", json().boxed()),
        member("error", json().boxed()),
        prop::option::weighted(0.3, (key(), json())),
    );
    members
        .prop_map(|(a, b, c, d, e, f, g)| {
            [a, b, c, d, e, f, g]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
        })
        .prop_shuffle()
        .prop_map(Json::Object)
}

/// Writes `json`; the numbers in `choices` (used round and round) decide on spaces and escapes.
struct Writer<'a> {
    out: String,
    choices: std::iter::Cycle<std::slice::Iter<'a, u8>>,
}

impl Writer<'_> {
    fn write(json: &Json, choices: &[u8]) -> String {
        let mut writer = Writer {
            out: String::new(),
            choices: choices.iter().cycle(),
        };
        writer.value(json);
        writer.out
    }

    fn choice(&mut self) -> u8 {
        self.choices.next().copied().unwrap_or(0)
    }

    fn space(&mut self) {
        let space = match self.choice() {
            0..=9 => " ",
            10..=14 => "\t \r",
            15..=19 => "  ",
            _ => "",
        };
        self.out.push_str(space);
    }

    fn text(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            let mut units = [0; 2];
            match c {
                '"' | '\\' => self.out.extend(['\\', c]),
                '/' if self.choice() < 60 => self.out.push_str("\\/"),
                '\n' => self.out.push_str("\\n"),
                _ if c < ' ' || self.choice() < 12 => {
                    for unit in c.encode_utf16(&mut units) {
                        self.out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                _ => self.out.push(c),
            }
        }
        self.out.push('"');
    }

    fn value(&mut self, json: &Json) {
        self.space();
        match json {
            Json::Scalar(s) => self.out.push_str(s),
            Json::Text(s) => self.text(s),
            Json::Array(items) => {
                self.out.push('[');
                for (i, item) in items.iter().enumerate() {
                    self.out.push_str(if i > 0 { "," } else { "" });
                    self.value(item);
                }
                self.space();
                self.out.push(']');
            }
            Json::Object(members) => {
                self.out.push('{');
                for (i, (key, value)) in members.iter().enumerate() {
                    self.out.push_str(if i > 0 { "," } else { "" });
                    self.space();
                    self.text(key);
                    self.space();
                    self.out.push(':');
                    self.value(value);
                }
                self.space();
                self.out.push('}');
            }
        }
        self.space();
    }
}
