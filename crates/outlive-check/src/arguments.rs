//! Arguments that a schema accepts, made up.
//!
//! A schema says which arguments are well-formed; whether a tool takes them for good is another matter: a timezone is a
//! string, but few strings are timezones. People write examples into descriptions for models to read, so those are
//! taken at their word first ([`Prose::Read`]), and the plainest values only after them.

use serde_json::{Map, Value};

/// Deeper schemas are given up: they may never end.
const DEEPEST: usize = 16;

/// No list or text is made longer, whatever the schema demands.
const LONGEST: u64 = 10_000;

/// What is said where anything may be said.
const ANYTHING: &str = "outlive check";

/// Whether values are looked for in what descriptions say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prose {
    /// Examples in descriptions are used.
    Read,
    /// Only the schema counts.
    Ignored,
}

/// The smallest arguments a schema accepts, as far as can be told.
pub fn made_up(schema: &Value, prose: Prose) -> Option<Value> {
    let maker = Maker {
        root: schema,
        prose,
    };
    let made = maker.value(schema, 0)?;
    made.is_object().then_some(made)
}

struct Maker<'a> {
    root: &'a Value,
    prose: Prose,
}

impl Maker<'_> {
    fn value(&self, schema: &Value, depth: usize) -> Option<Value> {
        if depth > DEEPEST {
            return None;
        }
        if let Some(path) = schema["$ref"].as_str() {
            let meant = self.root.pointer(path.strip_prefix('#')?)?;
            return self.value(&merged(&without(schema, "$ref"), meant), depth + 1);
        }
        if let Some(all) = schema["allOf"].as_array() {
            let rest = without(schema, "allOf");
            let whole = all.iter().fold(rest, |whole, part| merged(&whole, part));
            return self.value(&whole, depth + 1);
        }
        if let Some(given) = given(schema) {
            return Some(given.clone());
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(options) = schema[key].as_array() {
                let rest = without(schema, key);
                return options
                    .iter()
                    .find_map(|option| self.value(&merged(&rest, option), depth + 1));
            }
        }
        match kind(schema)? {
            "string" => self.string(schema),
            "integer" => number(schema, true),
            "number" => number(schema, false),
            "boolean" => Some(false.into()),
            "null" => Some(Value::Null),
            "array" => self.array(schema, depth),
            _ => self.object(schema, depth),
        }
    }

    fn object(&self, schema: &Value, depth: usize) -> Option<Value> {
        let required = schema["required"].as_array().into_iter().flatten();
        let mut object = Map::new();
        for name in required.filter_map(Value::as_str) {
            let made = match schema["properties"].get(name) {
                Some(schema) => self.value(schema, depth + 1)?,
                None => ANYTHING.into(),
            };
            object.insert(name.into(), made);
        }
        Some(object.into())
    }

    fn array(&self, schema: &Value, depth: usize) -> Option<Value> {
        let least = schema["minItems"].as_u64().unwrap_or(0).min(LONGEST) as usize;
        let first = schema["prefixItems"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let item = |nth: usize| match first.get(nth) {
            Some(schema) => self.value(schema, depth + 1),
            None if schema["items"].is_null() => Some(ANYTHING.into()),
            None => self.value(&schema["items"], depth + 1),
        };
        let mut items = (0..least).map(item).collect::<Option<Vec<Value>>>()?;
        if schema["uniqueItems"] == true {
            for (nth, item) in items.iter_mut().enumerate().skip(1) {
                *item = another(item, nth)?;
            }
        }
        Some(items.into())
    }

    fn string(&self, schema: &Value) -> Option<Value> {
        if let Some(known) = schema["format"].as_str().and_then(of_format) {
            return Some(known.into());
        }
        let least = schema["minLength"].as_u64().unwrap_or(0).min(LONGEST) as usize;
        let most = schema["maxLength"].as_u64().unwrap_or(u64::MAX) as usize;
        let fits = |text: &String| (least..=most).contains(&text.chars().count());
        if self.prose == Prose::Read
            && let Some(told) = schema["description"].as_str().and_then(told).filter(fits)
        {
            return Some(told.into());
        }
        let padded = ANYTHING.chars().chain(std::iter::repeat('x'));
        let length = least.max(ANYTHING.len()).min(most);
        Some(padded.take(length).collect::<String>().into())
    }
}

/// A value that the schema itself names.
fn given(schema: &Value) -> Option<&Value> {
    let lists = ["enum", "examples"].into_iter();
    let mut firsts = lists.filter_map(|key| schema[key].as_array()?.first());
    let mut alone = ["const", "default"]
        .into_iter()
        .filter_map(|key| schema.get(key));
    alone
        .next()
        .or_else(|| firsts.next())
        .or_else(|| schema.get("example"))
}

/// The type of values that the schema is about.
fn kind(schema: &Value) -> Option<&str> {
    let has = |key: &str| schema.get(key).is_some();
    match &schema["type"] {
        Value::Array(kinds) => kinds.iter().find(|kind| *kind != "null")?.as_str(),
        Value::String(kind) => Some(kind),
        _ if has("properties") || has("required") || !schema.is_object() => Some("object"),
        _ if has("items") || has("prefixItems") => Some("array"),
        _ if has("minimum") || has("maximum") || has("multipleOf") => Some("number"),
        _ if has("format") || has("pattern") || has("minLength") || has("description") => {
            Some("string")
        }
        _ => Some("object"),
    }
}

fn without(schema: &Value, key: &str) -> Value {
    let mut rest = schema.clone();
    if let Some(rest) = rest.as_object_mut() {
        rest.remove(key);
    }
    rest
}

/// What both demand.
fn merged(one: &Value, other: &Value) -> Value {
    let (Some(one), Some(other)) = (one.as_object(), other.as_object()) else {
        return other.clone();
    };
    let mut both = one.clone();
    for (key, value) in other {
        let value = match (key.as_str(), both.get(key)) {
            ("required", Some(Value::Array(names))) => {
                let more = value.as_array().into_iter().flatten();
                names.iter().chain(more).cloned().collect()
            }
            ("properties", Some(Value::Object(known))) => {
                let mut known = known.clone();
                known.extend(value.as_object().cloned().unwrap_or_default());
                known.into()
            }
            _ => value.clone(),
        };
        both.insert(key.clone(), value);
    }
    both.into()
}

/// A value unlike the first ones of its list.
fn another(value: &Value, nth: usize) -> Option<Value> {
    match value {
        Value::String(text) => Some(format!("{text} {nth}").into()),
        Value::Number(number) => Some((number.as_i64()? + nth as i64).into()),
        _ => None,
    }
}

fn of_format(format: &str) -> Option<&'static str> {
    Some(match format {
        "uri" | "url" | "iri" | "uri-reference" | "iri-reference" => "https://example.com/",
        "email" | "idn-email" => "someone@example.com",
        "hostname" | "idn-hostname" => "example.com",
        "ipv4" => "127.0.0.1",
        "ipv6" => "::1",
        "date" => "2026-01-01",
        "date-time" => "2026-01-01T00:00:00Z",
        "time" => "12:00:00Z",
        "duration" => "PT1S",
        "uuid" => "00000000-0000-4000-8000-000000000000",
        "json-pointer" => "/",
        "regex" => "x",
        _ => return None,
    })
}

/// The first number the schema accepts: 1, or the nearest to its bounds.
fn number(schema: &Value, whole: bool) -> Option<Value> {
    // Before 2019 the exclusive bounds were flags beside the others.
    let bound = |inclusive: &str, exclusive: &str| match &schema[exclusive] {
        Value::Bool(true) => (None, schema[inclusive].as_f64()),
        flag => (schema[inclusive].as_f64(), flag.as_f64()),
    };
    let (least, above) = bound("minimum", "exclusiveMinimum");
    let (most, below) = bound("maximum", "exclusiveMaximum");
    let is_in = |n: f64| {
        least.is_none_or(|least| n >= least)
            && above.is_none_or(|above| n > above)
            && most.is_none_or(|most| n <= most)
            && below.is_none_or(|below| n < below)
    };
    let step = schema["multipleOf"].as_f64().filter(|step| *step > 0.0);
    let stepped = |n: f64| step.map_or(n, |step| (n / step).ceil() * step);
    let low = least.or(above);
    let high = most.or(below);
    let middle = low.zip(high).map(|(low, high)| (low + high) / 2.0);
    let guesses = [
        Some(1.0),
        low,
        low.map(|low| low.floor() + 1.0),
        high,
        high.map(|high| high.ceil() - 1.0),
        middle,
    ];
    let guesses = guesses.into_iter().flatten().map(stepped);
    let chosen = guesses
        .filter(|n| !whole || n.fract() == 0.0)
        .find(|n| is_in(*n))?;
    Some(match chosen.fract() == 0.0 {
        true => (chosen as i64).into(),
        false => chosen.into(),
    })
}

/// What a description gives as an example.
fn told(description: &str) -> Option<String> {
    const MARKS: [&str; 6] = [
        "e.g.",
        "for example",
        "for instance",
        "such as",
        "example:",
        "examples:",
    ];
    const SHAPES: [(&str, &str); 6] = [
        ("HH:MM:SS", "12:00:00"),
        ("HH:MM", "12:00"),
        ("YYYY-MM-DD", "2026-01-01"),
        ("ISO 8601", "2026-01-01T00:00:00Z"),
        ("ISO-8601", "2026-01-01T00:00:00Z"),
        ("RFC 3339", "2026-01-01T00:00:00Z"),
    ];
    let plain = description.to_ascii_lowercase();
    let behind = MARKS
        .iter()
        .filter_map(|mark| Some(plain.find(mark)? + mark.len()))
        .min();
    if let Some(example) = behind.and_then(|at| example(&description[at..])) {
        return Some(example);
    }
    let mut shapes = SHAPES.into_iter();
    shapes
        .find(|(shape, _)| description.contains(shape))
        .map(|(_, text)| text.to_owned())
        .or_else(|| quoted(description))
}

/// The first of the examples that follow: in quotes, or up to where a list would go on.
fn example(text: &str) -> Option<String> {
    let text = text.trim_start_matches([',', ':', ' ']);
    if text.starts_with(QUOTES) {
        return quoted(text);
    }
    let end = text.find([',', ';', ')', '(', '\n']).unwrap_or(text.len());
    let words = text[..end].split(" or ").next().unwrap_or_default();
    let words = words.trim().trim_end_matches('.');
    (!words.is_empty() && words.len() <= 100).then(|| words.to_owned())
}

const QUOTES: [char; 5] = ['\'', '"', '`', '‘', '“'];

/// The first text in quotes. An apostrophe within a word is none.
fn quoted(text: &str) -> Option<String> {
    let mut before = ' ';
    for (at, letter) in text.char_indices() {
        if QUOTES.contains(&letter) && !before.is_alphanumeric() {
            let close = match letter {
                '‘' => '’',
                '“' => '”',
                same => same,
            };
            let inside = &text[at + letter.len_utf8()..];
            let end = inside.find(close)?;
            return (end > 0 && end <= 100).then(|| inside[..end].to_owned());
        }
        before = letter;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn plain(schema: Value) -> Value {
        made_up(
            &json!({ "required": ["x"], "properties": { "x": schema } }),
            Prose::Ignored,
        )
        .map_or(json!("nothing"), |made| made["x"].clone())
    }

    #[test]
    fn arguments_are_made_up_from_the_schema() {
        let schema = json!({
            "type": "object",
            "$defs": { "side": { "enum": ["left", "right"] } },
            "properties": {
                "text": { "type": "string", "maxLength": 3 },
                "count": { "type": "integer", "minimum": 5 },
                "side": { "$ref": "#/$defs/side" },
                "either": { "anyOf": [{ "type": "null" }, { "type": "string" }] },
                "many": { "type": "array", "minItems": 2, "items": { "type": "boolean" } },
                "inner": { "type": "object", "required": ["x"], "properties": { "x": { "type": "number" } } },
                "optional": { "type": "string" },
            },
            "required": ["text", "count", "side", "either", "many", "inner"],
        });
        let expected = json!({
            "text": "out", "count": 5, "side": "left", "either": null,
            "many": [false, false], "inner": { "x": 1 },
        });
        assert_eq!(made_up(&schema, Prose::Ignored), Some(expected));
    }

    #[test]
    fn what_the_schema_names_is_taken() {
        assert_eq!(
            plain(json!({ "type": "string", "default": "d", "examples": ["e"] })),
            "d"
        );
        assert_eq!(
            plain(json!({ "type": "string", "examples": ["e", "f"] })),
            "e"
        );
        assert_eq!(plain(json!({ "type": "string", "example": "e" })), "e");
        assert_eq!(plain(json!({ "const": 7 })), 7);
        assert_eq!(
            plain(json!({ "type": "string", "format": "uuid" }))
                .as_str()
                .map(str::len),
            Some(36)
        );
        assert_eq!(
            plain(json!({ "type": "string", "format": "ipv4" })),
            "127.0.0.1"
        );
        assert_eq!(
            plain(json!({ "type": "string", "minLength": 20 }))
                .as_str()
                .map(str::len),
            Some(20)
        );
    }

    #[test]
    fn numbers_keep_within_their_bounds() {
        assert_eq!(plain(json!({ "type": "integer" })), 1);
        assert_eq!(
            plain(json!({ "type": "integer", "minimum": 0, "maximum": 100 })),
            1
        );
        assert_eq!(
            plain(json!({ "type": "integer", "exclusiveMinimum": 5 })),
            6
        );
        assert_eq!(plain(json!({ "type": "integer", "maximum": -3 })), -3);
        assert_eq!(
            plain(json!({ "type": "integer", "exclusiveMaximum": -3 })),
            -4
        );
        assert_eq!(
            plain(json!({ "type": "number", "exclusiveMinimum": 0, "maximum": 0.5 })),
            0.5
        );
        assert_eq!(
            plain(json!({ "type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.5 })),
            0.25
        );
        assert_eq!(
            plain(json!({ "type": "integer", "minimum": 7, "multipleOf": 5 })),
            10
        );
        assert_eq!(
            plain(json!({ "type": "number", "minimum": 2, "exclusiveMinimum": true })),
            3
        );
        assert_eq!(
            plain(json!({ "type": "integer", "minimum": 3, "maximum": 2 })),
            "nothing"
        );
    }

    #[test]
    fn parts_of_a_schema_are_put_together() {
        let all = json!({ "allOf": [
            { "type": "object", "required": ["a"], "properties": { "a": { "type": "boolean" } } },
            { "required": ["b"], "properties": { "b": { "type": "integer" } } },
        ]});
        assert_eq!(plain(all), json!({ "a": false, "b": 1 }));
        let one_of = json!({ "type": "object",
            "properties": { "a": { "type": "integer" }, "b": { "type": "boolean" } },
            "oneOf": [{ "required": ["b"] }, { "required": ["a"] }] });
        assert_eq!(plain(one_of), json!({ "b": false }));
        let list = json!({ "type": "array", "minItems": 3, "uniqueItems": true, "items": { "type": "integer" } });
        assert_eq!(plain(list), json!([1, 2, 3]));
        let pair = json!({ "type": "array", "minItems": 2, "prefixItems": [{ "const": "a" }, { "const": 2 }] });
        assert_eq!(plain(pair), json!(["a", 2]));
        assert_eq!(plain(json!({})), json!({}));
        assert_eq!(plain(json!({ "type": ["null", "boolean"] })), false);
    }

    #[test]
    fn a_schema_that_never_ends_is_given_up() {
        let schema = json!({
            "type": "object", "required": ["self"], "properties": { "self": { "$ref": "#" } },
        });
        assert_eq!(made_up(&schema, Prose::Ignored), None);
    }

    #[test]
    fn descriptions_are_read_for_examples() {
        for (description, expected) in [
            (
                "IANA timezone name (e.g., 'America/New_York', 'Europe/London'). Use 'Etc/UTC' as local timezone.",
                Some("America/New_York"),
            ),
            ("Time to convert in 24-hour format (HH:MM)", Some("12:00")),
            ("The day, as YYYY-MM-DD", Some("2026-01-01")),
            ("A city, e.g. Paris or London.", Some("Paris")),
            ("A place such as \"New York\", in English", Some("New York")),
            (
                "The user's unit: `celsius` or `fahrenheit`",
                Some("celsius"),
            ),
            ("For example: main", Some("main")),
            ("What the user's question is", None),
            ("e.g.", None),
            ("", None),
        ] {
            assert_eq!(told(description).as_deref(), expected, "{description}");
        }
    }

    #[test]
    fn examples_have_to_fit() {
        let schema = json!({ "required": ["x"], "properties": {
            "x": { "type": "string", "maxLength": 3, "description": "a code, e.g. 'TOO LONG'" } } });
        assert_eq!(made_up(&schema, Prose::Read), Some(json!({ "x": "out" })));
    }
}
