//! Who is named when a question of the server's is not answered.

use outlive::client::Era;
use outlive::model::{CallResult, ElicitRequest, ElicitResult, RpcError};
use outlive::policy::Policy;
use outlive::server::{Ctx, ToolError};
use outlive::{Client, Error, Server};
use serde_json::json;

use super::{ERAS, in_time, served_by};

/// A server whose tool passes on whatever becomes of its question.
fn asking() -> Server {
    Server::builder("asking", "1")
        .tool("ask", "", |ctx: Ctx, (): ()| async move {
            let schema = json!({ "type": "object", "properties": {} });
            let answer = ctx.elicit(&ElicitRequest::form("Sure?", schema)).await?;
            Ok::<_, ToolError>(format!("{:?}", answer.action))
        })
        .build()
}

/// What a caller is told.
fn told(ended: Result<CallResult, Error>) -> String {
    match ended {
        Ok(result) => result.text(),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn a_panic_in_the_handler_of_the_client_is_not_blamed_on_the_server() {
    for era in ERAS {
        let client = Client::builder()
            .connector(served_by(asking()))
            .era(era)
            .elicitation(|_: ElicitRequest| async {
                if true {
                    panic!("on purpose");
                }
                Ok(ElicitResult::decline())
            });
        let client = in_time(client.connect()).await.expect("to connect");
        let told = told(in_time(client.call("ask", json!({}))).await);
        assert!(told.contains("handler panicked"), "{era:?}: {told}");
        assert!(!told.contains("The server answered"), "{era:?}: {told}");
        assert!(!told.contains("The server's answer"), "{era:?}: {told}");
    }
}

#[tokio::test]
async fn a_refusal_by_the_client_is_not_blamed_on_the_server() {
    for era in ERAS {
        let client = Client::builder()
            .connector(served_by(asking()))
            .era(era)
            .elicitation(|_: ElicitRequest| async { Err(RpcError::new(-1, "nobody is there")) });
        let client = in_time(client.connect()).await.expect("to connect");
        let told = told(in_time(client.call("ask", json!({}))).await);
        assert!(told.contains("nobody is there"), "{era:?}: {told}");
        assert!(!told.contains("The server answered"), "{era:?}: {told}");
        assert!(!told.contains("The server's answer"), "{era:?}: {told}");
    }
}

#[tokio::test]
async fn a_question_the_client_cannot_answer_names_the_capability() {
    for era in ERAS {
        let client = Client::builder().connector(served_by(asking())).era(era);
        let client = in_time(client.connect()).await.expect("to connect");
        let told = told(in_time(client.call("ask", json!({}))).await);
        assert!(!told.contains("Method not found"), "{era:?}: {told}");
        assert!(told.contains("elicitation/create"), "{era:?}: {told}");
        assert!(told.contains("capability"), "{era:?}: {told}");
    }
}

#[tokio::test]
async fn an_error_of_the_library_names_no_flag() {
    let mut policy = Policy::default();
    policy.limits.message = 4096;
    let client = Client::builder()
        .connector(served_by(asking()))
        .policy(policy);
    let client = in_time(client.era(Era::Legacy).connect()).await;
    let client = client.expect("to connect");
    let call = client.call("ask", json!({ "a": "x".repeat(5000) }));
    let words = in_time(call).await.expect_err("it is too long").to_string();
    assert!(words.contains("4096"), "{words}");
    assert!(!words.contains("--"), "{words}");
    assert!(words.contains("Limits::message"), "{words}");
}
