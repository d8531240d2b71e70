//! What can be sent to another thread, and named with this crate alone. Checked when it is compiled.

use outlive::cause::{Exit, Phase, Reason, StartFailure};
use outlive::client::{self, Call, Canceller, Listen, Running};
use outlive::error::{Bound, Limit, Outcome};
use outlive::model::{CallResult, StructuredError};
use outlive::policy::{Backoff, Breaker, Cancel, Limits, Liveness, PolicyError, Retry};
use outlive::server::{
    self, AskError, BuildError, CancelReason, Ctx, Elicited, Json, Responder, ServerHandle,
    ToolError, ToolResult, Unanswered,
};
use outlive::snapshot::{ResumeError, SnapshotError};
use outlive::{Cause, Client, Command, Connect, Ended, Error, Generation, Id, Policy, Secrets};
use outlive::{Server, Snapshot, Time, bytes, event, serde_json};

fn shared<T: Send + Sync + 'static>() {}
fn sent<T: Send + 'static>() {}
fn sent_value<T: Send>(_: &T) {}

const _: fn() = || {
    shared::<Client>();
    shared::<client::Tool>();
    shared::<client::Event>();
    shared::<client::State>();
    shared::<client::Notification>();
    shared::<Canceller>();
    shared::<Listen<client::Event>>();
    sent::<Call<CallResult>>();
    sent::<Running<CallResult>>();
    sent::<client::Builder<Command>>();
    sent::<Connect<fn() -> std::future::Ready<std::io::Result<outlive::memory::Endpoint>>>>();
    shared::<(Error, Cause, Reason, Exit, Phase, StartFailure)>();
    shared::<(Outcome, Bound, Limit, StructuredError, CallResult)>();
    shared::<(Policy, Limits, Backoff, Breaker, Liveness, Cancel, Retry)>();
    shared::<(PolicyError, Generation, Id, Time, Ended, Secrets)>();
    shared::<(Snapshot, SnapshotError, ResumeError)>();
    shared::<(event::Event, bytes::Bytes, serde_json::Value)>();
    shared::<(Server, ServerHandle, Ctx, BuildError, CancelReason)>();
    shared::<(AskError, Unanswered, Elicited<u8>, Json<u8>)>();
    shared::<(ToolError, ToolResult)>();
    sent::<Responder>();
    sent::<server::Builder>();
};

#[cfg(feature = "http")]
const _: fn() = || {
    shared::<outlive::Remote>();
    shared::<outlive::RemoteError>();
};

#[cfg(feature = "http-server")]
const _: fn() = || {
    sent::<server::Http>();
    sent::<server::HttpServer>();
    shared::<server::FilesError>();
    shared::<server::Principal>();
    shared::<outlive::http::HeaderMap>();
};

/// What `axum` asks of a service.
#[cfg(feature = "tower")]
const _: fn() = || {
    fn mounted<S: Clone + Send + Sync + 'static>() {}
    mounted::<server::HttpService>();
    sent::<server::HttpBody>();
};

#[cfg(feature = "gateway")]
const _: fn() = || {
    use outlive::gateway::{self, Sharing, Upstream};
    shared::<(outlive::Gateway, Upstream, Sharing)>();
    sent::<gateway::Builder>();
};

/// What is awaited can be spawned.
#[test]
fn futures_can_be_sent() {
    let server = Server::builder("demo", "1").build();
    sent_value(&Client::builder().server(&server).connect());
    let (_, end) = outlive::memory::pair();
    sent_value(&server.serve(end));
}
