//! Prompts, and the completion of what is typed into them.

use std::fmt::Display;
use std::marker::PhantomData;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::call::Call;
use super::ctx::Ctx;
use super::failure::to_rpc;
use super::registry::{Handler, Item, Plain};
use super::resource::written;
use super::schema;
use super::task::Work;
use super::tool::arguments;
use crate::model::reading;
use crate::model::{
    CompleteParams, CompleteResult, Completion, GetPromptResult, Prompt, PromptArgument,
    PromptMessage, RpcError,
};

/// What a prompt may return: text (which the person says), a [`PromptMessage`] or several, a whole
/// [`GetPromptResult`], or a `Result` of any of these.
#[diagnostic::on_unimplemented(
    message = "a prompt cannot return `{Self}`",
    label = "no result of a prompt",
    note = "return text (`String`, `&'static str`), a `PromptMessage`, a `Vec` of them, a `GetPromptResult`, or a \
            `Result` of any of these"
)]
pub trait IntoPromptResult {
    /// The prompt with everything filled in.
    fn into_prompt_result(self) -> Result<GetPromptResult, RpcError>;
}

impl IntoPromptResult for String {
    fn into_prompt_result(self) -> Result<GetPromptResult, RpcError> {
        PromptMessage::user(self).into_prompt_result()
    }
}

impl IntoPromptResult for &'static str {
    fn into_prompt_result(self) -> Result<GetPromptResult, RpcError> {
        PromptMessage::user(self).into_prompt_result()
    }
}

impl IntoPromptResult for PromptMessage {
    fn into_prompt_result(self) -> Result<GetPromptResult, RpcError> {
        Ok(GetPromptResult::new(vec![self]))
    }
}

impl IntoPromptResult for Vec<PromptMessage> {
    fn into_prompt_result(self) -> Result<GetPromptResult, RpcError> {
        Ok(GetPromptResult::new(self))
    }
}

impl IntoPromptResult for GetPromptResult {
    fn into_prompt_result(self) -> Result<GetPromptResult, RpcError> {
        Ok(self)
    }
}

impl<R: IntoPromptResult, E: Display + 'static> IntoPromptResult for Result<R, E> {
    fn into_prompt_result(self) -> Result<GetPromptResult, RpcError> {
        self.map_err(to_rpc)?.into_prompt_result()
    }
}

/// A prompt that is a function of what is filled in.
struct PromptFn<F, A> {
    function: Arc<F>,
    description: Option<Arc<str>>,
    arguments: PhantomData<fn() -> A>,
}

impl<F, A, Fut, R> Handler for PromptFn<F, A>
where
    F: Fn(Ctx, A) -> Fut + Send + Sync + 'static,
    A: DeserializeOwned + Send + 'static,
    Fut: Future<Output = R> + Send + 'static,
    R: IntoPromptResult + 'static,
{
    fn work(&self, call: &Arc<Call>, (): ()) -> Work {
        let (function, description) = (self.function.clone(), self.description.clone());
        let ctx = Ctx::new(call.clone());
        call.work(async move {
            let arguments = arguments(ctx.params()).map_err(RpcError::invalid_params)?;
            let result = function(ctx, arguments).await;
            let mut result = result.into_prompt_result()?;
            if result.description.is_none() {
                result.description = description.map(|words| words.to_string());
            }
            written(&result)
        })
    }
}

/// A prompt to be offered. What the definition does not say of the arguments is taken from the
/// function's type.
pub(crate) fn item<F, A, Fut, R>(mut prompt: Prompt, function: F) -> Item<Plain>
where
    F: Fn(Ctx, A) -> Fut + Send + Sync + 'static,
    A: DeserializeOwned + JsonSchema + Send + 'static,
    Fut: Future<Output = R> + Send + 'static,
    R: IntoPromptResult + 'static,
{
    let found = fields(&schema::of_input::<A>());
    if !found.is_empty() {
        prompt.arguments.get_or_insert(found);
    }
    let handler = PromptFn {
        function: Arc::new(function),
        description: prompt.description.as_deref().map(Arc::from),
        arguments: PhantomData,
    };
    Item {
        definition: super::definition(&prompt),
        key: prompt.name,
        handler: Arc::new(handler),
    }
}

/// The fields of an object's schema, as arguments of a prompt.
fn fields(schema: &Value) -> Vec<PromptArgument> {
    let required = |name: &str| {
        let required = schema["required"].as_array();
        required.is_some_and(|names| names.iter().any(|required| required == name))
    };
    let Some(properties) = schema["properties"].as_object() else {
        return Vec::new();
    };
    let field = |(name, about): (&String, &Value)| {
        let mut argument = PromptArgument::new(name, required(name));
        argument.description = about["description"].as_str().map(str::to_owned);
        argument
    };
    properties.iter().map(field).collect()
}

/// What a completion may return: a list of proposals, a [`Completion`], or a `Result` of either.
#[diagnostic::on_unimplemented(
    message = "a completion cannot return `{Self}`",
    label = "no proposals",
    note = "return a `Vec` of text, a `Completion`, or a `Result` of either"
)]
pub trait IntoCompletion {
    /// The proposals.
    fn into_completion(self) -> Result<Completion, RpcError>;
}

impl<T: Into<String>> IntoCompletion for Vec<T> {
    fn into_completion(self) -> Result<Completion, RpcError> {
        Ok(Completion::new(self.into_iter().map(Into::into)))
    }
}

impl IntoCompletion for Completion {
    fn into_completion(self) -> Result<Completion, RpcError> {
        Ok(self)
    }
}

impl<R: IntoCompletion, E: Display + 'static> IntoCompletion for Result<R, E> {
    fn into_completion(self) -> Result<Completion, RpcError> {
        self.map_err(to_rpc)?.into_completion()
    }
}

/// A completion that is a function of what was typed.
struct CompletionFn<F>(Arc<F>);

impl<F, Fut, R> Handler for CompletionFn<F>
where
    F: Fn(Ctx, CompleteParams) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = R> + Send + 'static,
    R: IntoCompletion + 'static,
{
    fn work(&self, call: &Arc<Call>, (): ()) -> Work {
        let function = self.0.clone();
        let ctx = Ctx::new(call.clone());
        call.work(async move {
            let params = serde_json::from_slice(ctx.params()).map_err(|error| {
                let why = reading::why::<CompleteParams>(ctx.params(), &error);
                RpcError::invalid_params(format!("The parameters are wrong: {why}."))
            })?;
            let mut result = CompleteResult::default();
            result.completion = function(ctx, params).await.into_completion()?;
            written(&result)
        })
    }
}

/// What answers `completion/complete`.
pub(crate) fn completion<F, Fut, R>(function: F) -> Plain
where
    F: Fn(Ctx, CompleteParams) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = R> + Send + 'static,
    R: IntoCompletion + 'static,
{
    Arc::new(CompletionFn(Arc::new(function)))
}
