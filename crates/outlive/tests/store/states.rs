//! What modern clients carry from one replica to another: the states of their requests, and their subscriptions.

use std::net::SocketAddr;
use std::path::Path;

use http_peer::{Reply, message};
use outlive::Server;
use outlive::model::ElicitRequest;
use outlive::server::{Http, ServerHandle};
use serde_json::{Value, json};
use tokio::task::block_in_place;

const OLD: &str = "the old secret of all replicas";
const NEW: &str = "the new secret of all replicas";

/// A replica whose tool asks who its caller is.
async fn replica(settings: impl FnOnce(Http) -> Http) -> (SocketAddr, ServerHandle) {
    let server = Server::builder("asking", "1.0.0")
        .tool("who", "Asks.", |ctx, (): ()| async move {
            let form = ElicitRequest::form("Who are you?", json!({"type": "object"}));
            match ctx.elicit(&form).await {
                Ok(answer) => format!("{:?}", answer.action),
                Err(error) => error.kind().to_owned(),
            }
        })
        .build();
    let handle = server.handle();
    let bound = settings(server.http()).bind("127.0.0.1:0").await;
    let bound = bound.expect("bound");
    let address = bound.local_addr();
    tokio::spawn(bound.serve());
    (address, handle)
}

fn post(to: SocketAddr, request: &Value, token: Option<&str>) -> Reply {
    let mut headers = message::modern_headers(request);
    headers.extend(token.map(|it| ("Authorization".into(), format!("Bearer {it}"))));
    let (headers, body) = (message::as_strs(&headers), request.to_string());
    block_in_place(|| http_peer::send(to, "POST", "/mcp", &headers, &body)).expect("a response")
}

/// Calls the tool, with what a round before has said, if there was one.
fn ask(to: SocketAddr, id: u64, before: Option<&Value>, token: Option<&str>) -> Value {
    let mut request = message::modern_call(id, "who", json!({}));
    let capabilities = "io.modelcontextprotocol/clientCapabilities";
    request["params"]["_meta"][capabilities] = json!({"elicitation": {"form": {}}});
    if let Some(before) = before {
        let asked = before["result"]["inputRequests"].as_object();
        let keys = asked.into_iter().flat_map(|it| it.keys());
        let answers = keys.map(|key| (key.clone(), json!({"action": "decline"})));
        request["params"]["inputResponses"] = Value::Object(answers.collect());
        request["params"]["requestState"] = before["result"]["requestState"].clone();
    }
    let reply = post(to, &request, token);
    block_in_place(|| reply.answer())
}

fn refusal(answer: &Value) -> &str {
    let words = answer["error"]["message"].as_str();
    words.unwrap_or_else(|| panic!("{answer}"))
}

/// What another replica, with these secrets, says to the state of one that has those.
async fn at_another(ours: &[&str], theirs: &[&str], directory: &Path) -> String {
    let file = |name: &str, secrets: &[&str]| {
        let path = directory.join(name);
        std::fs::write(&path, secrets.join("\n")).expect("written");
        path
    };
    let (ours, theirs) = (file("ours", ours), file("theirs", theirs));
    let (one, _one) = replica(|http| http.replica_secret_file(ours)).await;
    let (other, _other) = replica(|http| http.replica_secret_file(theirs)).await;
    let asked = ask(one, 1, None, None);
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let refused = ask(other, 2, Some(&asked), None);
    let words = refusal(&refused).to_owned();
    let done = ask(one, 3, Some(&asked), None);
    assert_eq!(message::text_of(&done), "Decline", "{done}");
    words
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_state_of_another_replica_is_refused_with_the_reason_also_while_secrets_are_replaced() {
    let directory = tempfile::tempdir().expect("a directory");
    for (ours, theirs, word) in [
        (&[OLD][..], &[OLD][..], "made by another replica"),
        (&[OLD], &[NEW, OLD], "made by another replica"),
        (&[OLD], &[NEW], "nothing waits"),
    ] {
        let said = at_another(ours, theirs, directory.path()).await;
        assert!(said.contains(word), "{ours:?} {theirs:?}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_state_is_its_principals() {
    let directory = tempfile::tempdir().expect("a directory");
    let tokens = directory.path().join("tokens");
    std::fs::write(&tokens, "one\ntwo\n").expect("written");
    let (at, _handle) = replica(|http| http.token_file(&tokens)).await;
    let asked = ask(at, 1, None, Some("one"));
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let stolen = ask(at, 2, Some(&asked), Some("two"));
    assert!(refusal(&stolen).contains("nothing waits"), "{stolen}");
    let done = ask(at, 3, Some(&asked), Some("one"));
    assert_eq!(message::text_of(&done), "Decline", "{done}");
}

/// 2026-07-28 has no sessions: a client whose `subscriptions/listen` ends sends it again, to whoever is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_subscription_goes_on_at_another_replica() {
    let (one, first) = replica(|http| http.replica_secret(OLD)).await;
    let (other, second) = replica(|http| http.replica_secret(OLD)).await;
    let listen = |id| {
        let wanted = json!({"notifications": {"toolsListChanged": true}});
        message::modern(id, "subscriptions/listen", wanted)
    };
    let acknowledged = |stream: &mut Reply| {
        let told = block_in_place(|| stream.message());
        assert_eq!(
            told["method"], "notifications/subscriptions/acknowledged",
            "{told}"
        );
    };
    let mut stream = post(one, &listen(1), None);
    acknowledged(&mut stream);
    first.shutdown();
    // It ends with its replica, and nobody is left waiting.
    let last = block_in_place(|| stream.answer());
    assert_eq!(last["result"]["resultType"], "complete", "{last}");
    let mut stream = post(other, &listen(2), None);
    acknowledged(&mut stream);
    second.add_tool("new", "Is new.", |_, (): ()| async { "new" });
    let told = block_in_place(|| stream.message());
    assert_eq!(told["method"], "notifications/tools/list_changed", "{told}");
    second.shutdown();
}
