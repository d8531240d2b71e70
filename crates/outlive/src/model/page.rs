//! Lists, a page at a time.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Object;
use super::lenient::Integer;

/// What can be listed.
pub trait Listed {
    /// The method that lists it.
    const METHOD: &'static str;
    /// The field of the answer that holds the items.
    const FIELD: &'static str;
}

/// Who may share an answer (2026-07-28).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum CacheScope {
    /// Everybody.
    Public,
    /// Only whoever asked, with the same authorisation.
    Private,
    /// A scope we do not know.
    #[serde(untagged)]
    Other(String),
}

/// The parameters of a method that lists.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PageParams {
    /// Where to go on; absent for the first page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Metadata.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Object>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Page<T> {
    /// `complete`, or absent before 2026-07-28.
    pub result_type: Option<String>,
    /// What is on the page.
    pub items: Vec<T>,
    /// Where to go on; absent on the last page.
    pub next_cursor: Option<String>,
    /// For how many milliseconds the page may be taken as true (2026-07-28).
    pub ttl_ms: Option<i64>,
    /// Who may share the page (2026-07-28).
    pub cache_scope: Option<CacheScope>,
    /// Metadata.
    pub meta: Option<Object>,
    /// Fields we do not know.
    pub extra: Object,
}

impl<T> Page<T> {
    /// The only page of a list.
    pub fn new(items: Vec<T>) -> Page<T> {
        Page {
            result_type: None,
            items,
            next_cursor: None,
            ttl_ms: None,
            cache_scope: None,
            meta: None,
            extra: Object::new(),
        }
    }
}

impl<T> Default for Page<T> {
    fn default() -> Page<T> {
        Page::new(Vec::new())
    }
}

impl<T: Listed + Serialize> Serialize for Page<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        fn optional<M: SerializeMap, V: Serialize>(
            map: &mut M,
            name: &str,
            value: &Option<V>,
        ) -> Result<(), M::Error> {
            match value {
                Some(value) => map.serialize_entry(name, value),
                None => Ok(()),
            }
        }

        let mut map = serializer.serialize_map(None)?;
        optional(&mut map, "resultType", &self.result_type)?;
        map.serialize_entry(T::FIELD, &self.items)?;
        optional(&mut map, "nextCursor", &self.next_cursor)?;
        optional(&mut map, "ttlMs", &self.ttl_ms)?;
        optional(&mut map, "cacheScope", &self.cache_scope)?;
        optional(&mut map, "_meta", &self.meta)?;
        for (name, value) in &self.extra {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de, T: Listed + Deserialize<'de>> Deserialize<'de> for Page<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader<T>(PhantomData<T>);

        impl<'de, T: Listed + Deserialize<'de>> Visitor<'de> for Reader<T> {
            type Value = Page<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a page of {}", T::FIELD)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Page<T>, A::Error> {
                let mut page = Page::default();
                while let Some(name) = map.next_key::<String>()? {
                    match name.as_str() {
                        field if field == T::FIELD => {
                            page.items = map.next_value::<Option<_>>()?.unwrap_or_default();
                        }
                        "resultType" => page.result_type = map.next_value()?,
                        "nextCursor" => page.next_cursor = map.next_value()?,
                        "ttlMs" => {
                            page.ttl_ms = map.next_value::<Option<Integer>>()?.map(i64::from)
                        }
                        "cacheScope" => page.cache_scope = map.next_value()?,
                        "_meta" => page.meta = map.next_value()?,
                        _ => {
                            page.extra.insert(name, map.next_value()?);
                        }
                    }
                }
                Ok(page)
            }
        }

        deserializer.deserialize_map(Reader(PhantomData))
    }
}
