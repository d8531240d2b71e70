//! Clients of HTTP+SSE before a server that dies.

use serde_json::{Value, json};

use crate::door::Door;
use crate::rig::tree;
use crate::wire::{self, Reply};

/// A client: its stream, and where it posts.
struct Client<'a> {
    door: &'a Door,
    stream: Reply,
    address: String,
}

impl Client<'_> {
    fn new(door: &Door) -> Client<'_> {
        let mut stream = door.get("/sse", &[]);
        assert_eq!(stream.status, 200);
        let address = stream.event().expect("an event").expect("an address");
        let mut client = Client {
            door,
            stream,
            address,
        };
        client.post(&wire::initialize(0));
        assert!(client.stream.message()["result"]["serverInfo"].is_object());
        client.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn post(&self, message: &Value) {
        let to = self.door.address;
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
        let door = Door::new(flags);
        let mut client = Client::new(&door);
        let mut other = Client::new(&door);
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
    let door = Door::new(&[]);
    let ours = || tree::marked(&door.setup.mark).len();
    let alone = ours();
    let mut client = Client::new(&door);
    let answer = client.call(1, "echo", json!({"text": "hi"}));
    assert_eq!(answer["result"]["content"][0]["text"], "hi");
    assert_eq!(ours(), alone + 1);
    drop(client);
    crate::rig::until("the server is gone", || (ours() == alone).then_some(()));
}
