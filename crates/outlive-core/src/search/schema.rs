//! The text in a JSON Schema: names of properties, and what is said about them.

use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Calls `each` with every property name, title and description of a schema, at any depth, in the order in which they
/// stand. A schema that is broken, or nested deeper than `serde_json` reads, is read up to there.
pub(super) fn each_text(schema: &[u8], mut each: impl FnMut(&str)) {
    let mut reader = serde_json::Deserializer::from_slice(schema);
    // What was read until it broke has been told.
    let _ = Walk {
        each: &mut each,
        at: At::Schema,
    }
    .deserialize(&mut reader);
}

/// What a value stands for.
#[derive(Clone, Copy)]
enum At {
    /// A schema, or a list of schemas.
    Schema,
    /// Names with a schema each, which are told.
    Properties,
    /// Names with a schema each, which nobody but the schema itself uses.
    Definitions,
    /// A text that is told.
    Text,
}

struct Walk<'e, F> {
    each: &'e mut F,
    at: At,
}

impl<'de, F: FnMut(&str)> DeserializeSeed<'de> for Walk<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, F: FnMut(&str)> Visitor<'de> for Walk<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(at) = map.next_key_seed(Key {
            each: self.each,
            of: self.at,
        })? {
            match at {
                Some(at) => map.next_value_seed(Walk {
                    each: self.each,
                    at,
                })?,
                None => map.next_value::<IgnoredAny>().map(|_| ())?,
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list
            .next_element_seed(Walk {
                each: self.each,
                at: self.at,
            })?
            .is_some()
        {}
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        if matches!(self.at, At::Text) {
            (self.each)(text);
        }
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }
}

/// A key of an object: says what its value is, `None` if nothing in it is of interest.
struct Key<'e, F> {
    each: &'e mut F,
    of: At,
}

impl<'de, F: FnMut(&str)> DeserializeSeed<'de> for Key<'_, F> {
    type Value = Option<At>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<At>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<F: FnMut(&str)> Visitor<'_> for Key<'_, F> {
    type Value = Option<At>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Option<At>, E> {
        Ok(match (self.of, key) {
            (At::Properties, name) => {
                (self.each)(name);
                Some(At::Schema)
            }
            (At::Definitions, _) => Some(At::Schema),
            (At::Text, _) => None,
            (At::Schema, "properties") => Some(At::Properties),
            (At::Schema, "$defs" | "definitions") => Some(At::Definitions),
            (At::Schema, "title" | "description" | "enum" | "const") => Some(At::Text),
            (
                At::Schema,
                "items"
                | "prefixItems"
                | "anyOf"
                | "oneOf"
                | "allOf"
                | "additionalProperties"
                | "then"
                | "else",
            ) => Some(At::Schema),
            (At::Schema, _) => None,
        })
    }
}
