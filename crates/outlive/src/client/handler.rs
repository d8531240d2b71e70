//! What a server may ask of its client: a model, a person, a list of folders.
//!
//! Each is a trait with one method, and a closure that returns a future will do. A handler runs as a
//! task of its own on the runtime the client was connected in: one that is slow or panics harms
//! nobody, and one whose question has been taken back, or whose server has died, is dropped. As
//! everywhere on a runtime, waiting must be awaiting: one that blocks its thread (reads a terminal, for
//! instance) belongs into `tokio::task::spawn_blocking`, or it holds up what shares that thread, and
//! on a runtime with one thread that is the connection itself.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::model::{
    ClientCapabilities, ElicitRequest, ElicitResult, ElicitationCapability, ListCapability, Object,
    Root, RootsResult, RpcError, SamplingCapability, SamplingRequest, SamplingResult,
};

/// Asks a model on the server's behalf (`sampling/createMessage`).
pub trait Sampling: Send + Sync + 'static {
    /// Answers the server.
    fn sample(
        &self,
        request: SamplingRequest,
    ) -> impl Future<Output = Result<SamplingResult, RpcError>> + Send;
}

/// Asks the person on the server's behalf (`elicitation/create`).
pub trait Elicitation: Send + Sync + 'static {
    /// Answers the server.
    fn elicit(
        &self,
        request: ElicitRequest,
    ) -> impl Future<Output = Result<ElicitResult, RpcError>> + Send;
}

/// Tells the server which folders it may work in (`roots/list`).
pub trait Roots: Send + Sync + 'static {
    /// Answers the server.
    fn roots(&self) -> impl Future<Output = Result<Vec<Root>, RpcError>> + Send;
}

impl<F, Answer> Sampling for F
where
    F: Fn(SamplingRequest) -> Answer + Send + Sync + 'static,
    Answer: Future<Output = Result<SamplingResult, RpcError>> + Send,
{
    fn sample(
        &self,
        request: SamplingRequest,
    ) -> impl Future<Output = Result<SamplingResult, RpcError>> + Send {
        self(request)
    }
}

impl<F, Answer> Elicitation for F
where
    F: Fn(ElicitRequest) -> Answer + Send + Sync + 'static,
    Answer: Future<Output = Result<ElicitResult, RpcError>> + Send,
{
    fn elicit(
        &self,
        request: ElicitRequest,
    ) -> impl Future<Output = Result<ElicitResult, RpcError>> + Send {
        self(request)
    }
}

impl<F, Answer> Roots for F
where
    F: Fn() -> Answer + Send + Sync + 'static,
    Answer: Future<Output = Result<Vec<Root>, RpcError>> + Send,
{
    fn roots(&self) -> impl Future<Output = Result<Vec<Root>, RpcError>> + Send {
        self()
    }
}

/// An answer on its way: the result as JSON.
pub(super) type Answering = Pin<Box<dyn Future<Output = Result<Vec<u8>, RpcError>> + Send>>;
type Handler = Arc<dyn Fn(&[u8]) -> Answering + Send + Sync>;

/// The handlers a client was given, and what that makes it able to do.
#[derive(Clone, Default)]
pub(super) struct Handlers {
    pub(super) capabilities: ClientCapabilities,
    sampling: Option<Handler>,
    elicitation: Option<Handler>,
    roots: Option<Handler>,
}

impl Handlers {
    pub(super) fn set_sampling(&mut self, handler: impl Sampling) {
        let handler = Arc::new(handler);
        self.capabilities.sampling = Some(SamplingCapability::default());
        self.sampling = Some(Arc::new(move |params| {
            let (handler, request) = (handler.clone(), read(params));
            Box::pin(async move { write(handler.sample(request?).await?) })
        }));
    }

    pub(super) fn set_elicitation(&mut self, handler: impl Elicitation) {
        let handler = Arc::new(handler);
        // Both modes by name, though an empty object means forms: 2025-11-25 tells them apart.
        self.capabilities.elicitation = Some(ElicitationCapability {
            form: Some(Object::new()),
            url: Some(Object::new()),
            ..ElicitationCapability::default()
        });
        self.elicitation = Some(Arc::new(move |params| {
            let (handler, request) = (handler.clone(), read(params));
            Box::pin(async move { write(handler.elicit(request?).await?) })
        }));
    }

    pub(super) fn set_roots(&mut self, handler: impl Roots) {
        let handler = Arc::new(handler);
        self.capabilities.roots = Some(ListCapability::telling_changes());
        self.roots = Some(Arc::new(move |_| {
            let handler = handler.clone();
            Box::pin(async move { write(RootsResult::new(handler.roots().await?)) })
        }));
    }

    /// Begins to answer a request of the server's.
    pub(super) fn answer(&self, method: &str, params: &[u8]) -> Answering {
        let handler = match method {
            "sampling/createMessage" => &self.sampling,
            "elicitation/create" => &self.elicitation,
            "roots/list" => &self.roots,
            "ping" => return Box::pin(async { Ok(b"{}".to_vec()) }),
            _ => &None,
        };
        match handler {
            Some(handler) => handler(params),
            None => {
                let error = RpcError::method_not_found(method);
                Box::pin(async { Err(error) })
            }
        }
    }
}

fn read<T: DeserializeOwned>(params: &[u8]) -> Result<T, RpcError> {
    serde_json::from_slice(params).map_err(|error| RpcError::invalid_params(error.to_string()))
}

fn write(result: impl Serialize) -> Result<Vec<u8>, RpcError> {
    serde_json::to_vec(&result).map_err(|error| RpcError::internal(error.to_string()))
}
