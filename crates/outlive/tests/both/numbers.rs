//! Numbers that JSON cannot express.

use outlive::server::{Ctx, Json};
use outlive::{Client, Server, schemars};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::{in_time, served_by};

#[derive(Serialize, JsonSchema)]
struct Mean {
    mean: f64,
}

#[tokio::test]
async fn a_result_that_json_cannot_express_is_an_error_that_names_the_field() {
    let server = Server::builder("numbers", "1")
        .tool("mean", "", |_: Ctx, (): ()| async {
            Json(vec![Mean { mean: f64::NAN }])
        })
        .build();
    let client = Client::builder().connector(served_by(server)).connect();
    let client = in_time(client).await.expect("to connect");
    let ended = in_time(client.call("mean", json!({}))).await;
    let words = ended.expect_err("NaN is no result").to_string();
    assert!(words.contains("mean") && words.contains("NaN"), "{words}");
}

#[tokio::test]
async fn arguments_that_json_cannot_express_are_not_sent() {
    let server = Server::builder("numbers", "1")
        .tool("echo", "", |ctx: Ctx, (): ()| async move {
            String::from_utf8_lossy(ctx.params()).into_owned()
        })
        .build();
    let client = Client::builder().connector(served_by(server)).connect();
    let client = in_time(client).await.expect("to connect");
    let arguments = Mean {
        mean: f64::INFINITY,
    };
    let ended = in_time(client.call("echo", arguments)).await;
    let words = ended.expect_err("it cannot be sent").to_string();
    assert!(
        words.contains("mean") && words.contains("infinite"),
        "{words}"
    );
}
