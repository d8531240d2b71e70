//! JSON that has every number it was given.
//!
//! JSON knows neither NaN nor infinity, and `serde_json` writes both as `null`: whoever reads that takes a wrong
//! number for a missing one. Here they are errors that name the field.

use std::fmt::Display;

use serde::ser::{
    Error, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant,
};
use serde::{Serialize, Serializer};

/// Writes a value as JSON to the end of `out`.
pub(crate) fn write(
    out: &mut Vec<u8>,
    value: &(impl Serialize + ?Sized),
) -> Result<(), serde_json::Error> {
    let mut json = serde_json::Serializer::new(out);
    value.serialize(Finite {
        inner: &mut json,
        field: None,
    })
}

/// Tells the name of a field. It is asked for only when something is wrong.
type Name<'a> = &'a dyn Fn() -> String;

/// A serializer, or a part of one, that takes finite numbers only. `field` is the nearest field that has a name.
struct Finite<'a, S> {
    inner: S,
    field: Option<Name<'a>>,
}

/// A value to be given to a serializer that is not ours.
struct Value<'a, T: ?Sized> {
    value: &'a T,
    field: Option<Name<'a>>,
}

impl<T: Serialize + ?Sized> Serialize for Value<'_, T> {
    fn serialize<S: Serializer>(&self, inner: S) -> Result<S::Ok, S::Error> {
        let field = self.field;
        self.value.serialize(Finite { inner, field })
    }
}

impl<S> Finite<'_, S> {
    fn refuse<E: Error>(&self, number: f64) -> E {
        let kind = if number.is_nan() { "NaN" } else { "infinite" };
        E::custom(match self.field.map(|name| name()) {
            Some(field) => format!("a number in `{field}` is {kind}, which JSON cannot express"),
            None => format!("a number is {kind}, which JSON cannot express"),
        })
    }
}

macro_rules! as_it_is {
    ($($method:ident($type:ty);)*) => {
        $(fn $method(self, value: $type) -> Result<S::Ok, S::Error> {
            self.inner.$method(value)
        })*
    };
}

impl<'a, S: Serializer> Serializer for Finite<'a, S> {
    type Ok = S::Ok;
    type Error = S::Error;
    type SerializeSeq = Finite<'a, S::SerializeSeq>;
    type SerializeTuple = Finite<'a, S::SerializeTuple>;
    type SerializeTupleStruct = Finite<'a, S::SerializeTupleStruct>;
    type SerializeTupleVariant = Finite<'a, S::SerializeTupleVariant>;
    type SerializeMap = Finite<'a, S::SerializeMap>;
    type SerializeStruct = Finite<'a, S::SerializeStruct>;
    type SerializeStructVariant = Finite<'a, S::SerializeStructVariant>;

    fn serialize_f32(self, number: f32) -> Result<S::Ok, S::Error> {
        match number.is_finite() {
            true => self.inner.serialize_f32(number),
            false => Err(self.refuse(number.into())),
        }
    }

    fn serialize_f64(self, number: f64) -> Result<S::Ok, S::Error> {
        match number.is_finite() {
            true => self.inner.serialize_f64(number),
            false => Err(self.refuse(number)),
        }
    }

    as_it_is! {
        serialize_bool(bool);
        serialize_i8(i8);
        serialize_i16(i16);
        serialize_i32(i32);
        serialize_i64(i64);
        serialize_i128(i128);
        serialize_u8(u8);
        serialize_u16(u16);
        serialize_u32(u32);
        serialize_u64(u64);
        serialize_u128(u128);
        serialize_char(char);
        serialize_str(&str);
        serialize_bytes(&[u8]);
        serialize_unit_struct(&'static str);
    }

    fn collect_str<T: Display + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        self.inner.collect_str(value)
    }

    fn serialize_none(self) -> Result<S::Ok, S::Error> {
        self.inner.serialize_none()
    }

    fn serialize_unit(self) -> Result<S::Ok, S::Error> {
        self.inner.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        let field = self.field;
        self.inner.serialize_some(&Value { value, field })
    }

    fn serialize_unit_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
    ) -> Result<S::Ok, S::Error> {
        self.inner.serialize_unit_variant(name, index, variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        let field = self.field;
        let value = Value { value, field };
        self.inner.serialize_newtype_struct(name, &value)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        let field = self.field;
        let value = Value { value, field };
        self.inner
            .serialize_newtype_variant(name, index, variant, &value)
    }

    fn serialize_seq(self, len: Option<usize>) -> Result<Self::SerializeSeq, S::Error> {
        let Finite { inner, field } = self;
        let inner = inner.serialize_seq(len)?;
        Ok(Finite { inner, field })
    }

    fn serialize_tuple(self, len: usize) -> Result<Self::SerializeTuple, S::Error> {
        let Finite { inner, field } = self;
        let inner = inner.serialize_tuple(len)?;
        Ok(Finite { inner, field })
    }

    fn serialize_tuple_struct(
        self,
        name: &'static str,
        len: usize,
    ) -> Result<Self::SerializeTupleStruct, S::Error> {
        let Finite { inner, field } = self;
        let inner = inner.serialize_tuple_struct(name, len)?;
        Ok(Finite { inner, field })
    }

    fn serialize_tuple_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Self::SerializeTupleVariant, S::Error> {
        let Finite { inner, field } = self;
        let inner = inner.serialize_tuple_variant(name, index, variant, len)?;
        Ok(Finite { inner, field })
    }

    fn serialize_map(self, len: Option<usize>) -> Result<Self::SerializeMap, S::Error> {
        let Finite { inner, field } = self;
        let inner = inner.serialize_map(len)?;
        Ok(Finite { inner, field })
    }

    fn serialize_struct(
        self,
        name: &'static str,
        len: usize,
    ) -> Result<Self::SerializeStruct, S::Error> {
        let Finite { inner, field } = self;
        let inner = inner.serialize_struct(name, len)?;
        Ok(Finite { inner, field })
    }

    fn serialize_struct_variant(
        self,
        name: &'static str,
        index: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Self::SerializeStructVariant, S::Error> {
        let Finite { inner, field } = self;
        let inner = inner.serialize_struct_variant(name, index, variant, len)?;
        Ok(Finite { inner, field })
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

/// Elements have the name of what they are elements of.
macro_rules! elements {
    ($($trait:ident::$method:ident;)*) => {
        $(impl<S: $trait> $trait for Finite<'_, S> {
            type Ok = S::Ok;
            type Error = S::Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), S::Error> {
                let field = self.field;
                self.inner.$method(&Value { value, field })
            }

            fn end(self) -> Result<S::Ok, S::Error> {
                self.inner.end()
            }
        })*
    };
}

elements! {
    SerializeSeq::serialize_element;
    SerializeTuple::serialize_element;
    SerializeTupleStruct::serialize_field;
    SerializeTupleVariant::serialize_field;
}

/// Fields have names of their own.
macro_rules! fields {
    ($($trait:ident;)*) => {
        $(impl<S: $trait> $trait for Finite<'_, S> {
            type Ok = S::Ok;
            type Error = S::Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                key: &'static str,
                value: &T,
            ) -> Result<(), S::Error> {
                let name = || key.to_owned();
                let field: Option<Name<'_>> = Some(&name);
                self.inner.serialize_field(key, &Value { value, field })
            }

            fn skip_field(&mut self, key: &'static str) -> Result<(), S::Error> {
                self.inner.skip_field(key)
            }

            fn end(self) -> Result<S::Ok, S::Error> {
                self.inner.end()
            }
        })*
    };
}

fields! {
    SerializeStruct;
    SerializeStructVariant;
}

impl<S: SerializeMap> SerializeMap for Finite<'_, S> {
    type Ok = S::Ok;
    type Error = S::Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), S::Error> {
        self.inner.serialize_key(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), S::Error> {
        let field = self.field;
        self.inner.serialize_value(&Value { value, field })
    }

    fn serialize_entry<K: Serialize + ?Sized, T: Serialize + ?Sized>(
        &mut self,
        key: &K,
        value: &T,
    ) -> Result<(), S::Error> {
        let name = || serde_json::to_string(key).unwrap_or_default();
        let name = || name().trim_matches('"').to_owned();
        let field: Option<Name<'_>> = Some(&name);
        self.inner.serialize_entry(key, &Value { value, field })
    }

    fn end(self) -> Result<S::Ok, S::Error> {
        self.inner.end()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::value::RawValue;
    use serde_json::{json, to_value};

    use super::*;

    #[derive(Serialize)]
    enum Shape {
        Empty,
        Round(f64),
        Pair(f64, f64),
        Box { wide: f32 },
    }

    #[derive(Serialize)]
    struct Drawing {
        name: Option<&'static str>,
        at: (i8, u64),
        #[serde(skip_serializing_if = "Vec::is_empty")]
        shapes: Vec<Shape>,
        by_name: BTreeMap<String, f64>,
        #[serde(flatten)]
        rest: BTreeMap<String, bool>,
    }

    fn drawing(shapes: Vec<Shape>, number: f64) -> Drawing {
        Drawing {
            name: Some("a\"b"),
            at: (-1, 2),
            shapes,
            by_name: BTreeMap::from([("x".into(), number)]),
            rest: BTreeMap::from([("more".into(), true)]),
        }
    }

    fn written(value: &impl Serialize) -> Result<String, String> {
        let mut json = Vec::new();
        write(&mut json, value).map_err(|error| error.to_string())?;
        Ok(String::from_utf8(json).expect("text"))
    }

    #[test]
    fn what_json_can_express_is_written_as_ever() {
        let shapes = vec![
            Shape::Empty,
            Shape::Round(1.5),
            Shape::Pair(1.0, 2.0),
            Shape::Box { wide: 0.5 },
        ];
        let drawing = drawing(shapes, 1e300);
        let plain = serde_json::to_string(&drawing).expect("JSON");
        assert_eq!(written(&drawing), Ok(plain));
        let raw = RawValue::from_string(r#"{"a": [1.50]}"#.into()).expect("JSON");
        assert_eq!(written(&raw), Ok(raw.get().to_owned()));
        let value = json!({"a": [null, 1, "b"], "c": {"d": 0.1}});
        assert_eq!(to_value(&value).expect("JSON"), value);
        assert_eq!(written(&value), Ok(value.to_string()));
    }

    #[test]
    fn a_number_that_json_does_not_have_is_named_by_its_field() {
        let refused = |value: &Drawing| written(value).expect_err("no number");
        let nan = refused(&drawing(vec![Shape::Round(f64::NAN)], 0.0));
        assert!(nan.contains("`shapes` is NaN"), "{nan}");
        let wide = f32::NEG_INFINITY;
        let boxed = refused(&drawing(vec![Shape::Box { wide }], 0.0));
        assert!(boxed.contains("`wide` is infinite"), "{boxed}");
        let mapped = refused(&drawing(Vec::new(), f64::INFINITY));
        assert!(mapped.contains("`x` is infinite"), "{mapped}");
        assert!(written(&f64::NAN).expect_err("no number").contains("NaN"));
    }
}
