//! Lists: pages, changes at run time, subscriptions, in both eras.

use outlive::model::{Prompt, Resource, ResourceTemplate};
use outlive::server::Server;
use serde_json::{Value, json};

use crate::rig::{Client, on_both_runtimes, text};

fn modern_meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "rig", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

#[test]
fn a_list_can_be_turned_page_by_page() {
    on_both_runtimes(|| async {
        let mut server = Server::builder("pages", "1").page_size(3);
        for n in 0..8 {
            server = server.tool(format!("t{n}"), "", |_, (): ()| async {});
        }
        let mut client = Client::legacy(&server.build()).await;
        let (mut names, mut cursor) = (Vec::new(), Value::Null);
        for page in 1.. {
            let list = client
                .request(page, "tools/list", json!({ "cursor": cursor }))
                .await;
            let tools = list["result"]["tools"].as_array().unwrap().clone();
            names.extend(
                tools
                    .iter()
                    .map(|tool| tool["name"].as_str().unwrap().to_owned()),
            );
            cursor = list["result"]["nextCursor"].clone();
            if cursor.is_null() {
                assert_eq!(page, 3);
                break;
            }
        }
        assert_eq!(names, ["t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7"]);
        for (id, bad) in [json!("x"), json!("99"), json!(["1"])]
            .into_iter()
            .enumerate()
        {
            let wrong = client
                .request(100 + id, "tools/list", json!({ "cursor": bad }))
                .await;
            assert_eq!(wrong["error"]["code"], -32602, "{wrong}");
        }
        client.vanish().await;
    });
}

#[test]
fn what_changes_while_it_is_served_is_told_and_listed() {
    on_both_runtimes(|| async {
        let server = Server::builder("changing", "1")
            .tool("old", "", |_, (): ()| async { "old" })
            .resource("r://old", "old", |_, _| async { "old" })
            .prompts_later()
            .build();
        let (mut one, mut other) = (Client::legacy(&server).await, Client::legacy(&server).await);
        one.ping("p").await;
        other.ping("p").await;
        let handle = server.handle();
        assert_eq!(handle.clients(), 2);

        handle.add_tool("new", "", |_, (): ()| async { "new" });
        for client in [&mut one, &mut other] {
            client.told("notifications/tools/list_changed").await;
            assert_eq!(text(&client.call("n", "new", json!({})).await), "new");
        }
        assert!(handle.remove_tool("old"));
        assert!(!handle.remove_tool("old"));
        one.told("notifications/tools/list_changed").await;
        assert_eq!(
            one.call("o", "old", json!({})).await["error"]["code"],
            -32602
        );

        handle.add_prompt(Prompt::new("p"), |_, (): ()| async { "p" });
        one.told("notifications/prompts/list_changed").await;
        assert!(handle.remove_prompt("p"));
        one.told("notifications/prompts/list_changed").await;
        handle.add_resource(Resource::new("r://new", "new"), |_, _| async { "new" });
        one.told("notifications/resources/list_changed").await;
        let template = ResourceTemplate::new("t://{x}", "t");
        let added =
            handle.add_resource_template(template, |_, uri| async move { uri.get("x").to_owned() });
        added.unwrap();
        one.told("notifications/resources/list_changed").await;
        let read = one
            .request("t", "resources/read", json!({ "uri": "t://y" }))
            .await;
        assert_eq!(read["result"]["contents"][0]["text"], "y");
        assert!(handle.remove_resource("r://old"));
        one.told("notifications/resources/list_changed").await;
        assert!(handle.remove_resource_template("t://{x}"));
        one.told("notifications/resources/list_changed").await;
        let bad = ResourceTemplate::new("t://", "t");
        assert!(
            handle
                .add_resource_template(bad, |_, _| async { "" })
                .is_err()
        );

        one.ping("last").await;
        assert_eq!(one.kept(), [] as [Value; 0], "nothing was told twice");
        one.vanish().await;
        other.vanish().await;
        assert_eq!(handle.clients(), 0);
    });
}

#[test]
fn only_subscribers_hear_of_a_resource() {
    on_both_runtimes(|| async {
        let server = Server::builder("subscriptions", "1")
            .resource("r://a", "a", |_, _| async { "a" })
            .build();
        let (mut one, mut other) = (Client::legacy(&server).await, Client::legacy(&server).await);
        let answer = one
            .request(1, "resources/subscribe", json!({ "uri": "r://a" }))
            .await;
        assert_eq!(answer["result"], json!({}));
        other.ping("p").await;
        server.handle().resource_updated("r://b");
        server.handle().resource_updated("r://a");
        let told = one.told("notifications/resources/updated").await;
        assert_eq!(told["params"]["uri"], "r://a");
        one.request(2, "resources/unsubscribe", json!({ "uri": "r://a" }))
            .await;
        server.handle().resource_updated("r://a");
        for client in [&mut one, &mut other] {
            client.ping("after").await;
            assert_eq!(client.kept(), [] as [Value; 0]);
        }
        one.vanish().await;
        other.vanish().await;
    });
}

#[test]
fn a_modern_client_needs_no_handshake_and_listens_on_a_stream() {
    on_both_runtimes(|| async {
        let server = Server::builder("modern", "1")
            .tool("ping", "", |ctx, (): ()| async move {
                format!("{:?}", ctx.era())
            })
            .build();
        let mut client = Client::connect(&server);
        let about = client
            .request("d", "server/discover", json!({ "_meta": modern_meta() }))
            .await;
        assert_eq!(about["result"]["supportedVersions"], json!(["2026-07-28"]));
        assert_eq!(
            about["result"]["capabilities"]["tools"]["listChanged"],
            true
        );

        let listen =
            json!({ "_meta": modern_meta(), "notifications": { "toolsListChanged": true } });
        client.begin("stream", "subscriptions/listen", listen).await;
        let acknowledged = client
            .told("notifications/subscriptions/acknowledged")
            .await;
        let of = "io.modelcontextprotocol/subscriptionId";
        assert_eq!(acknowledged["params"]["_meta"][of], "stream");

        server.handle().add_tool("new", "", |_, (): ()| async {});
        let changed = client.told("notifications/tools/list_changed").await;
        assert_eq!(changed["params"]["_meta"][of], "stream");

        let list = client
            .request("l", "tools/list", json!({ "_meta": modern_meta() }))
            .await;
        assert_eq!(list["result"]["resultType"], "complete");
        assert!(list["result"]["ttlMs"].is_number() && list["result"]["cacheScope"].is_string());
        assert_eq!(list["result"]["tools"].as_array().unwrap().len(), 2);
        let params = json!({ "_meta": modern_meta(), "name": "ping" });
        let called = client.request("c", "tools/call", params).await;
        assert_eq!(text(&called), "Modern");
        assert_eq!(called["result"]["resultType"], "complete");
        let params = json!({ "_meta": modern_meta(), "uri": "r://x" });
        let unknown = client.request("r", "resources/read", params).await;
        assert_eq!(unknown["error"]["code"], -32601, "no resources, no method");
        client.vanish().await;
    });
}
