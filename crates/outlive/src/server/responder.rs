//! The right to answer a request.

use std::sync::Arc;

use bytes::Bytes;
use outlive_core::server::Answer;
use serde::Serialize;
use tokio::sync::oneshot;

use super::call::{Call, Outcome, to_wire};
use crate::model::RpcError;

/// The right to answer one request, once.
///
/// Answering uses it up, so a second answer cannot be written down. If it is dropped instead, the
/// client is told that the handler did not answer. It may be sent to another task or thread and
/// outlive its handler. Should the client have cancelled the request or gone away meanwhile, the
/// answer goes nowhere; that is not an error.
///
/// ```compile_fail
/// # fn twice(responder: outlive::server::Responder) {
/// responder.respond(&1);
/// responder.respond(&2); // use of moved value
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a responder that is dropped answers with an error"]
pub struct Responder {
    /// `None` once it is used up.
    to: Option<Recipient>,
}

/// Where an answer goes.
#[derive(Debug)]
enum Recipient {
    /// To the client.
    Client(Arc<Call>),
    /// To the layers around the handler, which pass it on.
    Layers(oneshot::Sender<Outcome>),
}

impl Responder {
    pub(crate) fn new(call: Arc<Call>) -> Responder {
        Responder {
            to: Some(Recipient::Client(call)),
        }
    }

    /// A responder whose answer others see first. If it is dropped, the sender is.
    pub(crate) fn within_layers() -> (Responder, oneshot::Receiver<Outcome>) {
        let (sender, receiver) = oneshot::channel();
        let to = Some(Recipient::Layers(sender));
        (Responder { to }, receiver)
    }

    /// Answers with a result, which has to be a JSON object.
    pub fn respond(self, result: &impl Serialize) {
        match serde_json::to_vec(result) {
            Ok(json) => self.answer(Ok(json.into())),
            Err(error) => self.fail(RpcError::internal(format!(
                "The result cannot be written as JSON: {error}."
            ))),
        }
    }

    /// Answers with a result that is JSON already: an object.
    pub fn respond_json(self, json: impl Into<Bytes>) {
        let json = json.into();
        match serde_json::from_slice::<serde::de::IgnoredAny>(&json) {
            Ok(_) => self.answer(Ok(json)),
            Err(error) => self.fail(RpcError::internal(format!(
                "The result of the handler is not JSON: {error}."
            ))),
        }
    }

    /// Answers with an error.
    pub fn fail(self, error: RpcError) {
        self.answer(Err(error));
    }

    fn answer(mut self, outcome: Outcome) {
        match self.to.take() {
            Some(Recipient::Client(call)) => {
                let answer = match outcome {
                    Ok(json) => Answer::Result(json),
                    Err(error) => Answer::Error(to_wire(error)),
                };
                call.connection.answer(call.ticket, answer);
            }
            // The call may have been dropped meanwhile.
            Some(Recipient::Layers(layers)) => drop(layers.send(outcome)),
            None => {}
        }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        let Some(Recipient::Client(call)) = self.to.take() else {
            return;
        };
        if !call.is_abandoned() {
            let answer = match std::thread::panicking() {
                true => Answer::Panicked("it panicked".to_owned()),
                false => Answer::Dropped,
            };
            call.connection.answer(call.ticket, answer);
        }
    }
}
