//! From a method to the handler that answers it.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use outlive_core::Message;
use outlive_core::protocol::Era;
use serde::Deserialize;

use super::call::{Call, Outcome};
use super::connection::Connection;
use super::registry::{Items, Registry};
use super::resource::ResourceUri;
use super::task::Work;
use crate::model::RpcError;

/// The handler at work for a call. Its user's code has not run yet: that is left to the pool.
pub(crate) fn work(registry: &Registry, call: &Arc<Call>) -> Work {
    let tables = registry.tables();
    let message = &call.request.message;
    match message.method() {
        "tools/call" => match message.name() {
            Some(name) => match tables.tools.get(&name) {
                Some(tool) => registry.layers.around(&tool.handler, call),
                None => refuse(call, unknown("tool", &name)),
            },
            None => refuse(call, missing("name")),
        },
        "prompts/get" => match message.name() {
            Some(name) => match tables.prompts.get(&name) {
                Some(prompt) => prompt.handler.work(call, ()),
                None => refuse(call, unknown("prompt", &name)),
            },
            None => refuse(call, missing("name")),
        },
        "resources/read" => match message.uri() {
            Some(uri) => read(&tables, call, &uri),
            None => refuse(call, missing("uri")),
        },
        "completion/complete" => match &tables.completion {
            Some(handler) => handler.work(call, ()),
            None => refuse(call, RpcError::method_not_found(message.method())),
        },
        "tools/list" => answer(call, list(registry, call, "tools", &tables.tools)),
        "prompts/list" => answer(call, list(registry, call, "prompts", &tables.prompts)),
        "resources/list" => answer(call, list(registry, call, "resources", &tables.resources)),
        "resources/templates/list" => {
            let page = list(registry, call, "resourceTemplates", &tables.templates);
            answer(call, page)
        }
        method => match tables.methods.get(method) {
            Some(handler) => handler.work(call, ()),
            None => refuse(call, RpcError::method_not_found(method)),
        },
    }
}

fn read(tables: &super::registry::Tables, call: &Arc<Call>, uri: &str) -> Work {
    if let Some(resource) = tables.resources.get(uri) {
        return resource.handler.work(call, ResourceUri::fixed(uri));
    }
    for template in tables.templates.iter() {
        let (shape, handler) = &template.handler;
        if let Some(variables) = shape.matches(uri) {
            return handler.work(call, ResourceUri::matched(uri, variables));
        }
    }
    refuse(call, no_such_resource(call.request.era, uri))
}

/// The error for a resource that does not exist.
pub(crate) fn no_such_resource(era: Era, uri: &str) -> RpcError {
    let code = match era {
        Era::Legacy => RpcError::RESOURCE_NOT_FOUND,
        Era::Modern => RpcError::INVALID_PARAMS,
    };
    RpcError::new(code, format!("There is no resource {uri}."))
        .with_data(serde_json::json!({ "uri": uri }))
}

fn unknown(what: &str, name: &str) -> RpcError {
    RpcError::invalid_params(format!("Unknown {what}: {name}"))
}

fn missing(field: &str) -> RpcError {
    RpcError::invalid_params(format!(
        "The parameters have no `{field}`, or it is no string."
    ))
}

fn refuse(call: &Arc<Call>, error: RpcError) -> Work {
    answer(call, Err(error))
}

fn answer(call: &Arc<Call>, outcome: Outcome) -> Work {
    call.work(std::future::ready(outcome))
}

/// A page of items.
fn list<H>(registry: &Registry, call: &Call, field: &str, items: &Items<H>) -> Outcome {
    let from = match cursor(call)? {
        None => 0,
        Some(cursor) => cursor
            .parse()
            .ok()
            .filter(|from| *from <= items.len())
            .ok_or_else(|| RpcError::invalid_params("The cursor is not one of this list."))?,
    };
    let most = match registry.page {
        0 => usize::MAX,
        most => most,
    };
    let mut json = Vec::with_capacity(256);
    json.extend_from_slice(b"{\"");
    json.extend_from_slice(field.as_bytes());
    json.extend_from_slice(b"\":[");
    for (n, item) in items.iter().skip(from).take(most).enumerate() {
        if n > 0 {
            json.push(b',');
        }
        json.extend_from_slice(&item.definition);
    }
    json.push(b']');
    let next = from.saturating_add(most);
    if next < items.len() {
        json.extend_from_slice(format!(",\"nextCursor\":\"{next}\"").as_bytes());
    }
    json.push(b'}');
    Ok(Bytes::from(json))
}

fn cursor(call: &Call) -> Result<Option<Cow<'_, str>>, RpcError> {
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(borrow, default)]
        cursor: Option<Cow<'a, str>>,
    }
    if !call.request.message.cursor() {
        return Ok(None);
    }
    let params: Params<'_> = serde_json::from_slice(call.params())
        .map_err(|error| RpcError::invalid_params(format!("The cursor is unreadable: {error}.")))?;
    Ok(params.cursor)
}

/// Takes note of what the client tells.
pub(crate) fn notified(_: &Arc<Connection>, message: Message) {
    tracing::debug!(method = message.method(), "the client sent a notification");
}
