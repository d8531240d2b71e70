//! Objects whose kind is told by one of their fields.
//!
//! serde's own tagged enums collect a whole object before they decide what it is. Every SDK writes
//! the tag first, so we decide at the first field and read the rest into place: a megabyte of text
//! is copied once. An object in another order is collected, as serde would.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::Value;

use super::Object;

/// An enum whose variant is told by a field.
pub(super) trait Tagged: Sized {
    /// The field.
    const TAG: &'static str;

    /// Reads the variant; `rest` is the object without the tag.
    fn read<'de, D: Deserializer<'de>>(tag: Option<String>, rest: D) -> Result<Self, D::Error>;
}

/// Reads a tagged object.
pub(super) fn read<'de, D: Deserializer<'de>, T: Tagged>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_map(Reader(PhantomData))
}

struct Reader<T>(PhantomData<T>);

impl<'de, T: Tagged> Visitor<'de> for Reader<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with a field `{}`", T::TAG)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let mut collected = Object::new();
        let mut key = map.next_key::<String>()?;
        if key.as_deref() == Some(T::TAG) {
            let tag = map.next_value()?;
            return T::read(tag, MapAccessDeserializer::new(map));
        }
        let mut tag = None;
        while let Some(name) = key {
            if name == T::TAG {
                tag = map.next_value()?;
            } else {
                collected.insert(name, map.next_value()?);
            }
            key = map.next_key()?;
        }
        T::read(tag, Value::Object(collected)).map_err(A::Error::custom)
    }
}

/// Reads an object of an unknown kind, tag and all.
pub(super) fn read_unknown<'de, D: Deserializer<'de>>(
    name: &str,
    tag: Option<String>,
    rest: D,
) -> Result<Value, D::Error> {
    let mut object: Object = serde::Deserialize::deserialize(rest)?;
    if let Some(tag) = tag {
        object.insert(name.to_owned(), Value::String(tag));
    }
    Ok(Value::Object(object))
}
