//! Tools: what they take, what they give.

use std::borrow::Cow;
use std::fmt::Display;
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::call::{Call, Outcome};
use super::ctx::Ctx;
use super::failure::{refusal, words};
use super::layer::{self, Callable, Coming};
use super::registry::{Handler, Item, Plain};
use super::responder::Responder;
use super::schema;
use super::task::Work;
use crate::model::{CallResult, Content, RpcError, Tool};
use crate::model::{finite, reading};

/// What a tool may return.
///
/// Text, [`Content`] or several, a whole [`CallResult`], `()`, [`Json`] for structured output, or a
/// `Result` of any of these. The error of a `Result` is anything that can be displayed; it is
/// answered with `isError` for the model to read, unless it is an [`RpcError`], which refuses the
/// request.
#[diagnostic::on_unimplemented(
    message = "a tool cannot return `{Self}`",
    label = "no result of a tool",
    note = "return text (`n.to_string()`), or data with a schema: `Json(n)`, where the type implements `Serialize` and \
            `JsonSchema`",
    note = "a `serde_json::Value` is returned as `CallResult::structured(value)`",
    note = "a `Result` needs such a value, and an error that implements `Display`"
)]
pub trait IntoToolResult {
    /// The schema of the structured output and whether the output is to be wrapped to fit it.
    #[doc(hidden)]
    fn output_schema() -> Option<(Value, bool)> {
        None
    }

    /// The result, or the refusal of the request.
    fn into_tool_result(self) -> Result<ToolResult, RpcError>;
}

/// What a tool answers.
#[derive(Clone, Debug)]
pub struct ToolResult(Body);

#[derive(Clone, Debug)]
enum Body {
    Text(Cow<'static, str>),
    Failure(String),
    /// Structured content, as JSON; wrapped, it is put into an object.
    Structured {
        json: Vec<u8>,
        wrap: bool,
    },
    Full(Box<CallResult>),
    /// A whole result that is JSON already.
    Json(Bytes),
}

impl ToolResult {
    /// Text.
    pub fn text(text: impl Into<Cow<'static, str>>) -> ToolResult {
        ToolResult(Body::Text(text.into()))
    }

    /// The tool failed; the model is told so in these words.
    pub fn failure(words: impl Into<String>) -> ToolResult {
        ToolResult(Body::Failure(words.into()))
    }

    /// Whether the tool has failed (`isError`).
    pub fn is_error(&self) -> bool {
        match &self.0 {
            Body::Text(_) | Body::Structured { .. } => false,
            Body::Failure(_) => true,
            Body::Full(result) => result.is_error(),
            Body::Json(json) => {
                let read = serde_json::from_slice::<CallResult>(json);
                read.is_ok_and(|result| result.is_error())
            }
        }
    }

    /// The same as the schema of a tool wants it.
    fn wrapped(mut self, as_declared: bool) -> ToolResult {
        if let Body::Structured { wrap, .. } = &mut self.0 {
            *wrap = as_declared;
        }
        self
    }

    /// The result as JSON.
    pub(crate) fn write(self) -> Outcome {
        let mut json = Vec::with_capacity(128);
        let written = match &self.0 {
            Body::Text(text) => write_text(&mut json, text).map(|()| json.push(b'}')),
            Body::Failure(words) => write_text(&mut json, words)
                .map(|()| json.extend_from_slice(br#","isError":true}"#)),
            Body::Structured { json: data, wrap } => {
                write_text(&mut json, &String::from_utf8_lossy(data)).map(|()| {
                    json.extend_from_slice(br#","structuredContent":"#);
                    if *wrap {
                        json.extend_from_slice(br#"{"result":"#);
                    }
                    json.extend_from_slice(data);
                    json.extend_from_slice(if *wrap { b"}}" } else { b"}" });
                })
            }
            Body::Full(result) => serde_json::to_writer(&mut json, result),
            Body::Json(json) => return Ok(json.clone()),
        };
        written.map_err(unwritable)?;
        Ok(Bytes::from(json))
    }
}

/// Begins a result with one piece of text.
fn write_text(json: &mut Vec<u8>, text: &str) -> serde_json::Result<()> {
    json.extend_from_slice(br#"{"content":[{"type":"text","text":"#);
    serde_json::to_writer(&mut *json, text)?;
    json.extend_from_slice(b"}]");
    Ok(())
}

fn unwritable(error: serde_json::Error) -> RpcError {
    RpcError::internal(format!("The result cannot be written as JSON: {error}."))
}

impl IntoToolResult for ToolResult {
    fn into_tool_result(self) -> Result<ToolResult, RpcError> {
        Ok(self)
    }
}

impl IntoToolResult for String {
    fn into_tool_result(self) -> Result<ToolResult, RpcError> {
        Ok(ToolResult::text(self))
    }
}

impl IntoToolResult for &'static str {
    fn into_tool_result(self) -> Result<ToolResult, RpcError> {
        Ok(ToolResult::text(self))
    }
}

impl IntoToolResult for Cow<'static, str> {
    fn into_tool_result(self) -> Result<ToolResult, RpcError> {
        Ok(ToolResult::text(self))
    }
}

/// No content.
impl IntoToolResult for () {
    fn into_tool_result(self) -> Result<ToolResult, RpcError> {
        CallResult::new([]).into_tool_result()
    }
}

impl IntoToolResult for Content {
    fn into_tool_result(self) -> Result<ToolResult, RpcError> {
        CallResult::new([self]).into_tool_result()
    }
}

impl IntoToolResult for Vec<Content> {
    fn into_tool_result(self) -> Result<ToolResult, RpcError> {
        CallResult::new(self).into_tool_result()
    }
}

impl IntoToolResult for CallResult {
    fn into_tool_result(self) -> Result<ToolResult, RpcError> {
        Ok(ToolResult(Body::Full(Box::new(self))))
    }
}

impl<R: IntoToolResult, E: Display + 'static> IntoToolResult for Result<R, E> {
    fn output_schema() -> Option<(Value, bool)> {
        R::output_schema()
    }

    fn into_tool_result(self) -> Result<ToolResult, RpcError> {
        match self {
            Ok(result) => result.into_tool_result(),
            Err(error) => match refusal(&error) {
                Some(refusal) => Err(refusal),
                None => Ok(ToolResult::failure(words(&error))),
            },
        }
    }
}

/// Structured output: data with a schema, which the tool then declares.
///
/// The same data is also given as text, for clients that do not know structured content. Data that
/// is not an object becomes the field `result` of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<T: Serialize + JsonSchema> IntoToolResult for Json<T> {
    fn output_schema() -> Option<(Value, bool)> {
        Some(schema::of_output::<T>())
    }

    fn into_tool_result(self) -> Result<ToolResult, RpcError> {
        let mut json = Vec::new();
        finite::write(&mut json, &self.0).map_err(unwritable)?;
        Ok(ToolResult(Body::Structured { json, wrap: false }))
    }
}

/// A tool that is a function from arguments to a result.
struct ToolFn<F, A> {
    function: Arc<F>,
    /// Whether structured content is wrapped.
    wrap: bool,
    arguments: PhantomData<fn() -> A>,
}

impl<F, A, Fut, R> ToolFn<F, A>
where
    F: Fn(Ctx, A) -> Fut + Send + Sync + 'static,
    A: DeserializeOwned + Send + 'static,
    Fut: Future<Output = R> + Send + 'static,
    R: IntoToolResult + 'static,
{
    /// Runs the function on the arguments of a call.
    fn run(
        &self,
        call: &Arc<Call>,
    ) -> impl Future<Output = layer::Result> + Send + use<F, A, Fut, R> {
        let (function, wrap) = (self.function.clone(), self.wrap);
        let ctx = Ctx::new(call.clone());
        async move {
            let arguments = match arguments(ctx.params()) {
                Ok(arguments) => arguments,
                // For the model to read and mend (2025-11-25, tools: error handling).
                Err(why) => return Ok(ToolResult::failure(why)),
            };
            let result = function(ctx, arguments).await;
            Ok(result.into_tool_result()?.wrapped(wrap))
        }
    }
}

impl<F, A, Fut, R> Handler for ToolFn<F, A>
where
    F: Fn(Ctx, A) -> Fut + Send + Sync + 'static,
    A: DeserializeOwned + Send + 'static,
    Fut: Future<Output = R> + Send + 'static,
    R: IntoToolResult + 'static,
{
    fn work(&self, call: &Arc<Call>, (): ()) -> Work {
        let result = self.run(call);
        call.work(async move { result.await?.write() })
    }
}

impl<F, A, Fut, R> Callable for ToolFn<F, A>
where
    F: Fn(Ctx, A) -> Fut + Send + Sync + 'static,
    A: DeserializeOwned + Send + 'static,
    Fut: Future<Output = R> + Send + 'static,
    R: IntoToolResult + 'static,
{
    fn call(&self, call: &Arc<Call>) -> Coming {
        Box::pin(self.run(call))
    }
}

/// `arguments` out of the parameters of `tools/call` or `prompts/get`, read in place.
pub(crate) fn arguments<A: DeserializeOwned>(params: &[u8]) -> Result<A, String> {
    #[derive(Deserialize)]
    #[serde(bound = "A: Deserialize<'de>")]
    struct Params<A> {
        #[serde(default)]
        arguments: Option<A>,
    }
    let given = match serde_json::from_slice::<Params<A>>(params) {
        Ok(params) => params.arguments.ok_or(None),
        Err(error) => Err(Some(error)),
    };
    given.or_else(|wrong| {
        // None are given, or `A` is `()` and an empty object is: both mean nothing.
        let nothing = match &wrong {
            Some(_) => Err(()),
            None => serde_json::from_str("{}").map_err(|_| ()),
        };
        nothing
            .or_else(|()| match is_empty(params) {
                true => serde_json::from_str("null").map_err(|_| ()),
                false => Err(()),
            })
            .map_err(|()| match wrong {
                Some(error) => format!("The arguments are wrong: {}.", why::<A>(params, &error)),
                None => "The arguments are missing.".to_owned(),
            })
    })
}

/// What is wrong with the arguments: which one, and what is expected.
fn why<A: DeserializeOwned>(params: &[u8], error: &serde_json::Error) -> String {
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(borrow)]
        arguments: &'a RawValue,
    }
    match serde_json::from_slice::<Params<'_>>(params) {
        Ok(params) => reading::why::<A>(params.arguments.get().as_bytes(), error),
        Err(_) => reading::why::<Value>(params, error),
    }
}

/// Whether no argument is given.
fn is_empty(params: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Params {
        #[serde(default)]
        arguments: Option<serde_json::Map<String, Value>>,
    }
    serde_json::from_slice::<Params>(params)
        .is_ok_and(|params| params.arguments.is_none_or(|given| given.is_empty()))
}

/// A tool that answers through a responder.
struct LooseTool<F>(Arc<F>);

impl<F, Fut> Handler for LooseTool<F>
where
    F: Fn(Ctx, Responder) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    fn work(&self, call: &Arc<Call>, (): ()) -> Work {
        let function = self.0.clone();
        let ctx = Ctx::new(call.clone());
        let responder = Responder::new(call.clone());
        call.loose_work(async move { function(ctx, responder).await })
    }
}

impl<F, Fut> Callable for LooseTool<F>
where
    F: Fn(Ctx, Responder) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    /// Within layers it is at work until it is answered, whoever answers it.
    fn call(&self, call: &Arc<Call>) -> Coming {
        let function = self.0.clone();
        let ctx = Ctx::new(call.clone());
        let (responder, answered) = Responder::within_layers();
        Box::pin(async move {
            function(ctx, responder).await;
            match answered.await {
                Ok(answer) => Ok(ToolResult(Body::Json(answer?))),
                Err(_) => Err(RpcError::internal("The handler has not answered.")),
            }
        })
    }
}

/// A tool that answers through a responder, with its definition.
pub(crate) fn loose_item<F, Fut>(tool: Tool, function: F) -> Item<Arc<dyn Callable>>
where
    F: Fn(Ctx, Responder) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    of(tool, Arc::new(LooseTool(Arc::new(function))))
}

/// A handler that answers through a responder.
pub(crate) fn loose<F, Fut>(function: F) -> Plain
where
    F: Fn(Ctx, Responder) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    Arc::new(LooseTool(Arc::new(function)))
}

/// A tool to be offered. What the definition does not say is taken from the function's type.
pub(crate) fn item<F, A, Fut, R>(mut tool: Tool, function: F) -> Item<Arc<dyn Callable>>
where
    F: Fn(Ctx, A) -> Fut + Send + Sync + 'static,
    A: DeserializeOwned + JsonSchema + Send + 'static,
    Fut: Future<Output = R> + Send + 'static,
    R: IntoToolResult + 'static,
{
    if tool.input_schema == Tool::new("").input_schema {
        tool.input_schema = schema::of_input::<A>();
    }
    let output = R::output_schema();
    let wrap = output.as_ref().is_some_and(|(_, wrap)| *wrap);
    if let Some((schema, _)) = output {
        tool.output_schema.get_or_insert(schema);
    }
    let handler = ToolFn {
        function: Arc::new(function),
        wrap,
        arguments: PhantomData,
    };
    of(tool, Arc::new(handler))
}

/// A tool with its handler.
fn of(tool: Tool, handler: Arc<dyn Callable>) -> Item<Arc<dyn Callable>> {
    Item {
        definition: super::definition(&tool),
        key: tool.name,
        handler,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::ToolError;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Args {
        n: u32,
    }

    fn json(result: impl IntoToolResult) -> String {
        let body = result.into_tool_result().expect("no refusal");
        String::from_utf8(body.write().expect("JSON").into()).expect("text")
    }

    #[test]
    fn arguments_are_read_in_place() {
        let read = |params: &str| arguments::<Args>(params.as_bytes());
        let params = r#"{"_meta":{"n":2},"name":"x","arguments":{"n":1}}"#;
        assert_eq!(read(params), Ok(Args { n: 1 }));
        assert!(read(r#"{"name":"x"}"#).unwrap_err().contains("missing"));
        let wrong = read(r#"{"arguments":{"n":"one"}}"#).unwrap_err();
        let words = "The arguments are wrong: `n`: invalid type: string \"one\", expected u32.";
        assert_eq!(wrong, words);
        let wrong = read(r#"{"name":"x","arguments":{}}"#).unwrap_err();
        assert_eq!(wrong, "The arguments are wrong: missing field `n`.");
    }

    #[test]
    fn nothing_can_be_given_in_three_ways() {
        for params in ["{}", r#"{"arguments":{}}"#, r#"{"arguments":null}"#] {
            assert_eq!(arguments::<()>(params.as_bytes()), Ok(()), "{params}");
        }
        assert!(arguments::<()>(br#"{"arguments":{"n":1}}"#).is_err());
    }

    #[test]
    fn results_are_written_as_the_protocol_has_them() {
        let text = r#"{"content":[{"type":"text","text":"a\"b"}]"#;
        assert_eq!(json("a\"b"), format!("{text}}}"));
        assert_eq!(json(Ok::<_, ToolError>("a\"b")), format!("{text}}}"));
        let failed = format!(r#"{text},"isError":true}}"#);
        assert_eq!(json(Err::<(), _>("a\"b")), failed);
        assert_eq!(json(Err::<(), _>(ToolError::new("a\"b"))), failed);
        assert_eq!(json(()), r#"{"content":[]}"#);
        assert_eq!(
            json(Json(7)),
            r#"{"content":[{"type":"text","text":"7"}],"structuredContent":7}"#
        );
    }

    #[test]
    fn an_error_of_the_protocol_refuses() {
        let refusal = RpcError::invalid_params("no");
        let refused = Err::<(), _>(refusal.clone()).into_tool_result();
        assert_eq!(refused.unwrap_err(), refusal);
        let refused = Err::<(), _>(ToolError::from(refusal.clone())).into_tool_result();
        assert_eq!(refused.unwrap_err(), refusal);
    }

    #[test]
    fn data_that_is_no_object_is_wrapped_as_its_schema_says() {
        let (schema, wrap) = <Json<u32>>::output_schema().expect("a schema");
        assert!(wrap);
        assert_eq!(schema["properties"]["result"]["type"], "integer");
        let body = Json(7_u32).into_tool_result().expect("no refusal");
        let json = body.wrapped(wrap).write().expect("JSON");
        assert!(json.ends_with(br#""structuredContent":{"result":7}}"#));
    }
}
