//! The right to answer a request.

use std::sync::Arc;

use bytes::Bytes;
use outlive_core::server::Answer;
use serde::Serialize;

use super::call::{Call, to_wire};
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
    call: Option<Arc<Call>>,
}

impl Responder {
    pub(crate) fn new(call: Arc<Call>) -> Responder {
        Responder { call: Some(call) }
    }

    /// Answers with a result, which has to be a JSON object.
    pub fn respond(self, result: &impl Serialize) {
        match serde_json::to_vec(result) {
            Ok(json) => self.answer(Answer::Result(json.into())),
            Err(error) => self.fail(RpcError::internal(format!(
                "The result cannot be written as JSON: {error}."
            ))),
        }
    }

    /// Answers with a result that is JSON already: an object.
    pub fn respond_json(self, json: impl Into<Bytes>) {
        let json = json.into();
        match serde_json::from_slice::<serde::de::IgnoredAny>(&json) {
            Ok(_) => self.answer(Answer::Result(json)),
            Err(error) => self.fail(RpcError::internal(format!(
                "The result of the handler is not JSON: {error}."
            ))),
        }
    }

    /// Answers with an error.
    pub fn fail(self, error: RpcError) {
        self.answer(Answer::Error(to_wire(error)));
    }

    fn answer(mut self, answer: Answer) {
        if let Some(call) = self.call.take() {
            call.connection.answer(call.ticket, answer);
        }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        let Some(call) = self.call.take() else {
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
