//! Resources: what is read, by URI or by template.

use std::borrow::Cow;
use std::fmt::Display;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;

use super::call::{Call, Outcome};
use super::ctx::Ctx;
use super::dispatch::no_such_resource;
use super::failure::to_rpc;
use super::registry::{Handler, Item, Reader};
use super::task::Work;
use super::uri::{BadTemplate, Template};
use crate::model::{ReadResult, Resource, ResourceContents, ResourceTemplate, RpcError};

/// The URI that is read, and what its template's variables stand for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceUri {
    uri: String,
    variables: Vec<(String, String)>,
}

impl ResourceUri {
    pub(crate) fn fixed(uri: &str) -> ResourceUri {
        ResourceUri::matched(uri, Vec::new())
    }

    pub(crate) fn matched(uri: &str, variables: Vec<(String, String)>) -> ResourceUri {
        ResourceUri {
            uri: uri.to_owned(),
            variables,
        }
    }

    /// The URI as the client wrote it.
    pub fn as_str(&self) -> &str {
        &self.uri
    }

    /// What a variable of the template stands for, `%XX` resolved; empty if there is no such
    /// variable.
    pub fn get(&self, variable: &str) -> &str {
        let found = self.variables.iter().find(|(name, _)| name == variable);
        found.map_or("", |(_, value)| value)
    }
}

/// What a resource may return: text, bytes, [`ResourceContents`] or several, a whole
/// [`ReadResult`], an `Option` (nothing: no such resource) or a `Result` of any of these.
#[diagnostic::on_unimplemented(
    message = "a resource cannot return `{Self}`",
    label = "no contents of a resource",
    note = "return text (`String`, `&'static str`), bytes (`Vec<u8>`, `Bytes`), `ResourceContents` or a `Vec` of them, \
            a `ReadResult`, or an `Option` or a `Result` of any of these"
)]
pub trait IntoReadResult {
    /// What is in the resource; `None` if it does not exist after all.
    fn into_read_result(
        self,
        uri: &str,
        mime_type: Option<&str>,
    ) -> Result<Option<ReadResult>, RpcError>;
}

fn one(mut contents: ResourceContents, mime_type: Option<&str>) -> Option<ReadResult> {
    contents.mime_type = mime_type.map(str::to_owned);
    Some(ReadResult::new(vec![contents]))
}

impl IntoReadResult for String {
    fn into_read_result(
        self,
        uri: &str,
        mime_type: Option<&str>,
    ) -> Result<Option<ReadResult>, RpcError> {
        Ok(one(ResourceContents::text(uri, self), mime_type))
    }
}

impl IntoReadResult for &'static str {
    fn into_read_result(
        self,
        uri: &str,
        mime_type: Option<&str>,
    ) -> Result<Option<ReadResult>, RpcError> {
        Ok(one(ResourceContents::text(uri, self), mime_type))
    }
}

impl IntoReadResult for Cow<'static, str> {
    fn into_read_result(
        self,
        uri: &str,
        mime_type: Option<&str>,
    ) -> Result<Option<ReadResult>, RpcError> {
        Ok(one(ResourceContents::text(uri, self), mime_type))
    }
}

impl IntoReadResult for Bytes {
    fn into_read_result(
        self,
        uri: &str,
        mime_type: Option<&str>,
    ) -> Result<Option<ReadResult>, RpcError> {
        let blob = BASE64_STANDARD.encode(&self);
        Ok(one(ResourceContents::blob(uri, blob), mime_type))
    }
}

impl IntoReadResult for Vec<u8> {
    fn into_read_result(
        self,
        uri: &str,
        mime_type: Option<&str>,
    ) -> Result<Option<ReadResult>, RpcError> {
        Bytes::from(self).into_read_result(uri, mime_type)
    }
}

impl IntoReadResult for ResourceContents {
    fn into_read_result(self, _: &str, _: Option<&str>) -> Result<Option<ReadResult>, RpcError> {
        Ok(Some(ReadResult::new(vec![self])))
    }
}

impl IntoReadResult for Vec<ResourceContents> {
    fn into_read_result(self, _: &str, _: Option<&str>) -> Result<Option<ReadResult>, RpcError> {
        Ok(Some(ReadResult::new(self)))
    }
}

impl IntoReadResult for ReadResult {
    fn into_read_result(self, _: &str, _: Option<&str>) -> Result<Option<ReadResult>, RpcError> {
        Ok(Some(self))
    }
}

impl<R: IntoReadResult> IntoReadResult for Option<R> {
    fn into_read_result(
        self,
        uri: &str,
        mime_type: Option<&str>,
    ) -> Result<Option<ReadResult>, RpcError> {
        match self {
            Some(result) => result.into_read_result(uri, mime_type),
            None => Ok(None),
        }
    }
}

impl<R: IntoReadResult, E: Display + 'static> IntoReadResult for Result<R, E> {
    fn into_read_result(
        self,
        uri: &str,
        mime_type: Option<&str>,
    ) -> Result<Option<ReadResult>, RpcError> {
        self.map_err(to_rpc)?.into_read_result(uri, mime_type)
    }
}

/// A resource that is a function of its URI.
struct ReadFn<F> {
    function: Arc<F>,
    mime_type: Option<Arc<str>>,
}

impl<F, Fut, R> Handler<ResourceUri> for ReadFn<F>
where
    F: Fn(Ctx, ResourceUri) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = R> + Send + 'static,
    R: IntoReadResult + 'static,
{
    fn work(&self, call: &Arc<Call>, uri: ResourceUri) -> Work {
        let (function, mime_type) = (self.function.clone(), self.mime_type.clone());
        let ctx = Ctx::new(call.clone());
        let era = ctx.era();
        call.work(async move {
            let name = uri.uri.clone();
            let result = function(ctx, uri).await;
            match result.into_read_result(&name, mime_type.as_deref())? {
                Some(result) => written(&result),
                None => Err(no_such_resource(era, &name)),
            }
        })
    }
}

/// A result as JSON.
pub(crate) fn written(result: &impl serde::Serialize) -> Outcome {
    let json = serde_json::to_vec(result).map_err(|error| {
        RpcError::internal(format!("The result cannot be written as JSON: {error}."))
    })?;
    Ok(json.into())
}

fn reader<F, Fut, R>(function: F, mime_type: Option<&str>) -> Reader
where
    F: Fn(Ctx, ResourceUri) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = R> + Send + 'static,
    R: IntoReadResult + 'static,
{
    Arc::new(ReadFn {
        function: Arc::new(function),
        mime_type: mime_type.map(Arc::from),
    })
}

/// A resource to be offered.
pub(crate) fn item<F, Fut, R>(resource: Resource, function: F) -> Item<Reader>
where
    F: Fn(Ctx, ResourceUri) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = R> + Send + 'static,
    R: IntoReadResult + 'static,
{
    Item {
        definition: super::definition(&resource),
        handler: reader(function, resource.mime_type.as_deref()),
        key: resource.uri,
    }
}

/// A family of resources to be offered.
pub(crate) fn family<F, Fut, R>(
    template: ResourceTemplate,
    function: F,
) -> Result<Item<(Template, Reader)>, BadTemplate>
where
    F: Fn(Ctx, ResourceUri) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = R> + Send + 'static,
    R: IntoReadResult + 'static,
{
    let shape = Template::read(&template.uri_template)?;
    Ok(Item {
        definition: super::definition(&template),
        handler: (shape, reader(function, template.mime_type.as_deref())),
        key: template.uri_template,
    })
}
