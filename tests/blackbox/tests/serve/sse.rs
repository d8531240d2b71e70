//! Clients of HTTP+SSE before a server that dies.

use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::rig::tree;
use crate::wire::{self, Reply};

/// A client: its stream, and where it posts.
struct Client<'a> {
    gateway: &'a Gateway,
    stream: Reply,
    address: String,
}

impl Client<'_> {
    fn new(gateway: &Gateway) -> Client<'_> {
        let mut stream = gateway.get("/sse", &[]);
        assert_eq!(stream.status, 200);
        let address = stream.event().expect("an address").data;
        let mut client = Client {
            gateway,
            stream,
            address,
        };
        client.post(&wire::initialize());
        assert!(client.stream.message()["result"]["serverInfo"].is_object());
        client.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn post(&self, message: &Value) {
        let to = self.gateway.address;
        let reply = wire::send_to(to, &self.address, "POST", &[], &message.to_string());
        assert_eq!(reply.status, 202);
    }

    /// The answer to a call.
    fn call(&mut self, id: u64, tool: &str, arguments: Value) -> Value {
        self.post(&wire::call(id, tool, arguments));
        loop {
            let message = self.stream.message();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }
}

#[test]
fn a_server_that_dies_is_replaced_under_the_stream() {
    for flags in [&[][..], &["--share"]] {
        let gateway = Gateway::new(flags);
        let mut client = Client::new(&gateway);
        let mut other = Client::new(&gateway);
        let died = client.call(1, "crash", json!({"code": 1}));
        assert_eq!(died["error"]["data"]["outlive"]["kind"], "connection_lost");
        for client in [&mut client, &mut other] {
            let answer = client.call(2, "echo", json!({"text": "hi"}));
            assert_eq!(answer["result"]["content"][0]["text"], "hi", "{answer}");
        }
    }
}

#[test]
fn fm_33_a_client_that_vanishes_takes_its_server_with_it() {
    let gateway = Gateway::new(&[]);
    let ours = || tree::marked(&gateway.setup.mark).len();
    let alone = ours();
    let mut client = Client::new(&gateway);
    let answer = client.call(1, "echo", json!({"text": "hi"}));
    assert_eq!(answer["result"]["content"][0]["text"], "hi");
    assert_eq!(ours(), alone + 1);
    drop(client);
    crate::rig::until("the server is gone", || (ours() == alone).then_some(()));
}
