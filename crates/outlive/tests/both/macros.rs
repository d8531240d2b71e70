//! Functions as tools: what a client sees of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use outlive::model::Tool;
use outlive::schemars::JsonSchema;
use outlive::server::{Ctx, Json, ToolError};
use outlive::{Client, Server};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ERAS, in_time};

#[derive(Default)]
struct Counter(AtomicU64);

/// Where something is.
#[derive(Deserialize, JsonSchema)]
struct Place {
    /// The city.
    city: String,
    zip: Option<String>,
}

#[outlive::tools]
impl Counter {
    /// Adds to the count.
    ///
    /// And says what it is.
    #[outlive::tool(title = "Add", destructive = false, open_world = false)]
    async fn add(
        &self,
        /// How much.
        by: u64,
        ctx: &Ctx,
        #[serde(default, rename = "times")] mut n: Option<u64>,
    ) -> String {
        tokio::task::yield_now().await;
        let times = *n.get_or_insert(1);
        let sum = self.0.fetch_add(by * times, Ordering::Relaxed) + by * times;
        format!("{} {sum}", ctx.method())
    }

    #[tool(read_only, idempotent)]
    fn count(&self) -> Json<u64> {
        Json(self.0.load(Ordering::Relaxed))
    }

    /// Finds a place.
    #[outlive::tool]
    async fn find(#[serde(flatten)] place: Place) -> Result<String, ToolError> {
        match place.zip {
            Some(zip) => Ok(format!("{zip} {}", place.city)),
            None => Err(ToolError::new("no zip")),
        }
    }

    /// Two structs side by side, and one within.
    #[outlive::tool(name = "r.pair")]
    async fn r#pair(
        &self,
        ctx: Ctx,
        #[serde(flatten)] from: Place,
        to: Place,
        r#type: bool,
    ) -> String {
        let name = ctx.client().map(|it| it.name).unwrap_or_default();
        format!("{} {} {} {}", from.city, to.city, r#type, name.is_empty())
    }

    #[cfg(any())]
    #[outlive::tool]
    async fn absent(&self, it: Nowhere) {}
}

/// Greets somebody.
#[outlive::tool]
async fn greet(
    /// Who.
    name: String,
) -> String {
    format!("Hello, {name}!")
}

async fn connected(server: &Server) -> Client {
    let client = Client::builder().server(server).connect();
    in_time(client).await.expect("to connect")
}

fn server() -> Server {
    Server::builder("counter", "1")
        .tools(Counter::default())
        .tools(greet {})
        .build()
}

#[tokio::test]
async fn signatures_become_schemas_and_doc_comments_descriptions() {
    let client = connected(&server()).await;
    let tools = in_time(client.tools()).await.expect("a list");
    let listed: Vec<Value> = tools
        .iter()
        .map(|it| serde_json::to_value(Tool::clone(it)).expect("JSON"))
        .collect();
    let names: Vec<_> = listed.iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["add", "count", "find", "r.pair", "greet"]);
    assert_eq!(
        listed[0],
        json!({
            "name": "add",
            "title": "Add",
            "description": "Adds to the count.\n\nAnd says what it is.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "by": { "type": "integer", "format": "uint64", "minimum": 0, "description": "How much." },
                    "times": { "type": ["integer", "null"], "format": "uint64", "minimum": 0, "default": null },
                },
                "required": ["by"],
            },
            "annotations": { "destructiveHint": false, "openWorldHint": false },
        })
    );
    assert_eq!(listed[1]["description"], Value::Null);
    let hints = json!({ "readOnlyHint": true, "idempotentHint": true });
    assert_eq!(listed[1]["annotations"], hints);
    let output = &listed[1]["outputSchema"]["properties"]["result"];
    assert_eq!(output["type"], "integer");
    // The fields of a struct that is flattened have their own doc comments.
    let city = json!({ "type": "string", "description": "The city." });
    assert_eq!(listed[2]["inputSchema"]["properties"]["city"], city);
    assert_eq!(listed[2]["inputSchema"]["required"], json!(["city"]));
    let pair = &listed[3]["inputSchema"]["properties"];
    assert_eq!(pair["city"], city);
    assert_eq!(pair["to"]["properties"]["city"], city);
    assert_eq!(pair["type"], json!({ "type": "boolean" }));
    let greet = &listed[4];
    assert_eq!(greet["description"], "Greets somebody.");
    let name = json!({ "type": "string", "description": "Who." });
    assert_eq!(greet["inputSchema"]["properties"]["name"], name);
}

#[tokio::test]
async fn functions_are_called_with_what_the_client_sent() {
    let server = server();
    for era in ERAS {
        let client = Client::builder().server(&server).era(era).connect();
        let client = in_time(client).await.expect("to connect");
        let call = async |tool: &str, arguments: Value| {
            let result = in_time(client.call(tool, arguments))
                .await
                .expect("a result");
            (result.text(), result.is_error())
        };
        let text = async |tool, arguments| call(tool, arguments).await.0;
        let before: u64 = text("count", json!({})).await.parse().expect("a number");
        let sum = text("add", json!({ "by": 2, "times": 3 })).await;
        assert_eq!(sum, format!("tools/call {}", before + 6));
        let sum = text("add", json!({ "by": 1 })).await;
        assert_eq!(sum, format!("tools/call {}", before + 7));
        let found = text("find", json!({ "city": "Ulm", "zip": "89073" })).await;
        assert_eq!(found, "89073 Ulm");
        let failed = call("find", json!({ "city": "Ulm" })).await;
        assert_eq!(failed, ("no zip".into(), true));
        let pair = json!({ "city": "Ulm", "to": { "city": "Bonn" }, "type": true });
        assert_eq!(text("r.pair", pair).await, "Ulm Bonn true false");
        assert_eq!(text("greet", json!({ "name": "Ada" })).await, "Hello, Ada!");
        // What is wrong is said by the path of the argument, as everywhere.
        let wrong = call("add", json!({ "by": "two" })).await;
        assert!(wrong.1 && wrong.0.contains("`by`"), "{wrong:?}");
        let wrong = call("find", json!({ "city": 7 })).await;
        assert!(wrong.1 && wrong.0.contains("`city`"), "{wrong:?}");
    }
}

#[tokio::test]
async fn a_program_goes_on_using_what_its_tools_share() {
    let counter = Arc::new(Counter::default());
    let server = Server::builder("counter", "1")
        .tools(counter.clone())
        .build();
    let client = connected(&server).await;
    let call = client.call("add", json!({ "by": 5 }));
    in_time(call).await.expect("a result");
    assert_eq!(counter.0.load(Ordering::Relaxed), 5);
    // The functions stay functions.
    assert_eq!(greet("Ada".into()).await, "Hello, Ada!");
}
