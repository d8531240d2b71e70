//! Between bytes and the messages of rmcp, each way once.

use bytes::Bytes;
use outlive_core::error::Outcome;
use outlive_core::message::Kind;
use outlive_core::{Error, Generation, Id, Message};
use rmcp::ErrorData;
use rmcp::model::{JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, ServiceRole, TxJsonRpcMessage};
use serde::Serialize;

/// A message that rmcp has no type for.
#[derive(Debug)]
pub(super) struct Unreadable {
    pub(super) message: Message,
    pub(super) error: Error,
}

/// Reads a message for rmcp.
pub(super) fn read<R: ServiceRole>(
    message: Message,
) -> Result<RxJsonRpcMessage<R>, Box<Unreadable>> {
    let error = match serde_json::from_slice(message.bytes()) {
        Ok(message) => return Ok(message),
        Err(error) => error,
    };
    let outcome = match message.kind() {
        Kind::Response => Outcome::Done,
        Kind::Request | Kind::Notification => Outcome::NotSent,
    };
    let error = Error::Protocol {
        what: format!("rmcp cannot read it: {error}"),
        unreadable: false,
        outcome,
    };
    Err(Box::new(Unreadable { message, error }))
}

impl Unreadable {
    /// The answer to whoever sent the message, if it is a request.
    pub(super) fn answer(&self, generation: Generation) -> Option<Message> {
        let message = &self.message;
        let is_request = message.kind() == Kind::Request;
        is_request.then(|| {
            self.error
                .to_response(message.id_json(), message.method(), generation)
        })
    }

    /// What rmcp is given in its place, if it is an answer: whoever waits for it should not wait for
    /// ever.
    pub(super) fn for_rmcp<R: ServiceRole>(&self) -> Option<RxJsonRpcMessage<R>> {
        let id = match self.message.id()? {
            Id::Int(number) => RequestId::Number(*number),
            Id::Text(text) => RequestId::String((**text).into()),
            Id::Null | Id::Number(_) => return None,
        };
        let error = ErrorData::invalid_request(self.error.to_string(), None);
        let is_answer = self.message.kind() == Kind::Response;
        is_answer.then(|| JsonRpcMessage::error(error, Some(id)))
    }
}

/// Writes a message of rmcp's.
pub(super) fn write<R: ServiceRole>(message: &TxJsonRpcMessage<R>) -> Result<Bytes, Error>
where
    TxJsonRpcMessage<R>: Serialize,
{
    match serde_json::to_vec(message) {
        Ok(line) => Ok(line.into()),
        Err(error) => Err(Error::Protocol {
            what: format!("it cannot be written as JSON: {error}"),
            unreadable: false,
            outcome: Outcome::NotSent,
        }),
    }
}

/// An id of rmcp's as one of ours.
pub(super) fn id(id: &RequestId) -> Id {
    match id {
        RequestId::Number(number) => Id::Int(*number),
        RequestId::String(text) => Id::text(&**text),
    }
}
