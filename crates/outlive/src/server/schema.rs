//! JSON Schemas of what tools take and give.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use schemars::transform::ReplaceBoolSchemas;
use serde_json::{Map, Value, json};

/// The schema of a tool's arguments: always that of an object, as the protocol wants it.
pub(crate) fn of_input<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_deserialize();
    let mut schema = generate::<T>(settings);
    if !is_object(&schema) {
        schema = Map::new();
        schema.insert("type".into(), json!("object"));
    }
    schema.entry("properties").or_insert_with(|| json!({}));
    Value::Object(schema)
}

/// The schema of a tool's structured content, and whether the content has to be wrapped.
///
/// Up to 2025-11-25 structured content is an object. What is none becomes the one field `result` of
/// one, as other SDKs do it.
pub(crate) fn of_output<T: JsonSchema>() -> (Value, bool) {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let schema = generate::<T>(settings);
    if is_object(&schema) {
        return (Value::Object(schema), false);
    }
    let wrapped = json!({
        "type": "object",
        "properties": { "result": schema },
        "required": ["result"],
    });
    (wrapped, true)
}

/// The schema of a form: an object of flat fields, in the few words elicitation has for them.
pub(crate) fn of_form<T: JsonSchema>() -> Value {
    let mut schema = of_input::<T>();
    let properties = schema["properties"].as_object_mut();
    for (_, field) in properties.into_iter().flatten() {
        let Some(field) = field.as_object_mut() else {
            continue;
        };
        // A field that may be left out is one that is not required; no form has `null` in it.
        if let Some(Value::Array(types)) = field.get("type")
            && let [one] = &types.iter().filter(|it| *it != "null").collect::<Vec<_>>()[..]
        {
            let one = (*one).clone();
            field.insert("type".into(), one);
        }
        // `uint32`, `double`: formats of numbers are for other readers.
        if field.get("type").is_some_and(|it| it != "string") {
            field.remove("format");
        }
    }
    schema
}

fn generate<T: JsonSchema>(mut settings: SchemaSettings) -> Map<String, Value> {
    // Readers of tool lists do not all follow references.
    settings.inline_subschemas = true;
    // A property is described by an object: the protocol's own schema, and so the TypeScript SDK,
    // do not know `true`.
    let mut objects = ReplaceBoolSchemas::default();
    objects.skip_additional_properties = true;
    let settings = settings.with_transform(objects);
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let mut schema = match Value::from(schema) {
        Value::Object(schema) => schema,
        // `true`: anything.
        _ => Map::new(),
    };
    schema.remove("$schema");
    schema.remove("title");
    schema
}

fn is_object(schema: &Map<String, Value>) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("object")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_has_fields_of_one_type_each() {
        #[derive(JsonSchema)]
        #[expect(dead_code)]
        struct Order {
            /// How many.
            count: u32,
            note: Option<String>,
        }
        assert_eq!(
            of_form::<Order>(),
            json!({
                "type": "object",
                "properties": {
                    "count": { "type": "integer", "minimum": 0, "description": "How many." },
                    "note": { "type": "string" },
                },
                "required": ["count"],
            })
        );
    }

    #[test]
    fn a_property_that_may_be_anything_is_described_by_an_object() {
        #[derive(JsonSchema)]
        #[expect(dead_code)]
        struct Echo {
            value: Value,
        }
        let properties = json!({ "value": {} });
        assert_eq!(of_input::<Echo>()["properties"], properties);
        assert_eq!(of_output::<Echo>().0["properties"], properties);
    }
}
