//! Arguments, results and forms as types.

use outlive::model::{ElicitRequest, ElicitResult, RpcError, StructuredError};
use outlive::server::{Ctx, Elicited, Json, ToolError};
use outlive::{Client, Error, Server, schemars};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{ERAS, in_time};

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Stop {
    name: String,
    minutes: u32,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Route {
    stops: Vec<Stop>,
}

fn routes() -> Server {
    Server::builder("routes", "1")
        .tool("last", "", |_: Ctx, mut route: Route| async move {
            let none = || ToolError::new("It stops nowhere.");
            route.stops.pop().map(Json).ok_or_else(none)
        })
        .tool("count", "", |_: Ctx, route: Route| async move {
            Json(route.stops.len())
        })
        .tool("say", "", |_: Ctx, (): ()| async { "hello" })
        .build()
}

async fn client() -> Client {
    let client = Client::builder().server(&routes()).connect();
    in_time(client).await.expect("to connect")
}

#[tokio::test]
async fn wrong_arguments_are_told_by_field_and_expectation() {
    let client = client().await;
    let told = async |arguments: Value| {
        let result = in_time(client.call("last", arguments)).await;
        let result = result.expect("an answer for the model");
        assert!(result.is_error());
        result.text()
    };
    let stops =
        json!({ "stops": [{ "name": "A", "minutes": 1 }, { "name": "B", "minutes": "2" }] });
    assert_eq!(
        told(stops).await,
        "The arguments are wrong: `stops[1].minutes`: invalid type: string \"2\", expected u32."
    );
    assert_eq!(
        told(json!({ "stops": [{ "name": "A" }] })).await,
        "The arguments are wrong: `stops[0]`: missing field `minutes`."
    );
    assert_eq!(
        told(json!({})).await,
        "The arguments are wrong: missing field `stops`."
    );
}

#[tokio::test]
async fn a_result_is_read_as_a_type() {
    let client = client().await;
    let route = json!({ "stops": [{ "name": "A", "minutes": 1 }] });
    let last = in_time(client.call("last", &route))
        .await
        .expect("an answer");
    let name = "A".to_owned();
    assert_eq!(last.structured_as(), Ok(Stop { name, minutes: 1 }));
    let count = in_time(client.call("count", &route)).await;
    let count = count.expect("an answer");
    assert_eq!(count.structured_as::<usize>(), Ok(1));
    let why = count.structured_as::<Stop>().expect_err("no stop");
    assert!(matches!(why, StructuredError::Unreadable(_)), "{why}");
    assert!(why.to_string().contains("missing field `name`"), "{why}");
    let said = in_time(client.call("say", json!({}))).await;
    let none = said.expect("an answer").structured_as::<Value>();
    assert_eq!(none, Err(StructuredError::Missing));
    let empty = in_time(client.call("last", json!({ "stops": [] }))).await;
    let failed = empty.expect("an answer").structured_as::<Stop>();
    let words = "It stops nowhere.".to_owned();
    assert_eq!(failed, Err(StructuredError::ToolFailed(words)));
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_is_told_by_field() {
    let client = client().await;
    let params = json!({ "name": "say" });
    let call = client.request::<Route>("tools/call", params);
    let error = in_time(call).await.expect_err("no route");
    assert!(matches!(error, Error::Protocol { .. }), "{error:?}");
    let words = error.to_string();
    assert!(words.contains("missing field `stops`"), "{words}");
    assert!(!words.contains("line"), "{words}");
}

#[tokio::test]
async fn a_form_is_filled_in_as_a_type() {
    let server = Server::builder("asking", "1")
        .tool("ask", "", |ctx: Ctx, (): ()| async move {
            Ok::<_, ToolError>(match ctx.elicit_as::<Stop>("Where to?").await? {
                Elicited::Accepted(stop) => format!("{} in {}", stop.name, stop.minutes),
                Elicited::Declined => "no".into(),
                Elicited::Cancelled => "nobody".into(),
            })
        })
        .build();
    for era in ERAS {
        let cases = [
            (ElicitResult::decline(), "no"),
            (ElicitResult::cancel(), "nobody"),
            (accept(json!({ "name": "A", "minutes": 5 })), "A in 5"),
            (
                accept(json!({ "name": "A", "minutes": "5" })),
                "The client's answer to elicitation/create cannot be used: `minutes`: invalid type: string \"5\", \
                 expected u32.",
            ),
        ];
        for (answer, said) in cases {
            let client = Client::builder().server(&server).era(era).elicitation(
                move |request: ElicitRequest| {
                    let answer = answer.clone();
                    async move {
                        let schema = request.requested_schema.unwrap_or_default();
                        match schema["properties"]["minutes"]["type"] == "integer" {
                            true => Ok(answer),
                            false => Err(RpcError::internal(schema.to_string())),
                        }
                    }
                },
            );
            let client = in_time(client.connect()).await.expect("to connect");
            let result = in_time(client.call("ask", json!({}))).await;
            assert_eq!(result.expect("an answer").text(), said, "{era:?}");
        }
    }
}

fn accept(form: Value) -> ElicitResult {
    let Value::Object(form) = form else {
        panic!("no form")
    };
    ElicitResult::accept(form)
}
