//! What handlers share.

use std::sync::Mutex;

use outlive::model::Tool;
use outlive::server::Ctx;
use outlive::{Client, Server};
use serde_json::json;

use super::in_time;

#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

struct Greeting(&'static str);

async fn add(ctx: Ctx, (): ()) -> String {
    let notes: &Notes = ctx.state();
    let mut notes = notes.0.lock().expect("no panic");
    notes.push("a".into());
    notes.concat()
}

#[tokio::test]
async fn handlers_share_one_value_of_each_type() {
    let server = Server::builder("notes", "1")
        .state(Notes::default())
        .state(Greeting("Hello!"))
        .tool("add", "", add)
        .tool_with(Tool::new("greet"), |ctx: Ctx, (): ()| async move {
            let greeting = ctx.state::<Greeting>();
            tokio::task::yield_now().await;
            greeting.0
        })
        .tool("none", "", |ctx: Ctx, (): ()| async move {
            format!("{}", ctx.try_state::<u8>().is_none())
        })
        .tool("wrong", "", |ctx: Ctx, (): ()| async move {
            ctx.state::<u8>().to_string()
        })
        .build();
    let client = in_time(Client::builder().server(&server).connect()).await;
    let client = client.expect("to connect");
    let text = async |tool: &str| {
        let result = in_time(client.call(tool, json!({}))).await;
        result.map(|result| result.text())
    };
    assert_eq!(text("add").await, Ok("a".into()));
    assert_eq!(text("add").await, Ok("aa".into()));
    assert_eq!(text("greet").await, Ok("Hello!".into()));
    assert_eq!(text("none").await, Ok("true".into()));
    assert!(text("wrong").await.is_err());
}

#[test]
fn there_is_one_state_of_each_type() {
    let server = Server::builder("notes", "1").state(1_u8).state(2_u8);
    let wrong = server.try_build().expect_err("two of them").to_string();
    assert!(wrong.contains("u8"), "{wrong}");
}
