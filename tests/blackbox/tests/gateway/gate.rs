//! A gateway before fake servers, and clients of both eras.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use outlive::gateway::Builder;
use outlive::policy::Policy;
use outlive::{Command, Gateway};
use serde_json::{Value, json};

use crate::rig::{PATIENCE, Setup, tree};
use crate::wire::{self, Reply};

/// A gateway that is being served.
pub struct Gate {
    pub address: SocketAddr,
    pub gateway: Gateway,
    pub setup: Setup,
    ended: Mutex<Receiver<()>>,
}

impl Gate {
    /// Before a fake without faults.
    pub fn new() -> Gate {
        Gate::with(Setup::new(), |builder| builder)
    }

    pub fn with(setup: Setup, change: impl FnOnce(Builder) -> Builder) -> Gate {
        let fake = setup.fake();
        let command = Command::new(&fake[0], &fake[1..]).env(tree::MARK, &setup.mark);
        let policy = Policy {
            drain: Duration::from_secs(10),
            ..Policy::default()
        };
        let gateway = change(Gateway::command(command).policy(policy)).build();
        Gate::of(setup, gateway)
    }

    pub fn of(setup: Setup, gateway: Gateway) -> Gate {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let binding = gateway.http().bind("127.0.0.1:0");
        let listening = runtime.block_on(binding).expect("a port");
        let address = listening.local_addr();
        let (done, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            runtime.block_on(listening.serve()).expect("served");
            runtime.shutdown_background();
            let _ = done.send(());
        });
        Gate {
            address,
            gateway,
            setup,
            ended: Mutex::new(ended),
        }
    }

    /// Waits for the end.
    #[track_caller]
    pub fn join(&self) {
        let ended = self.ended.lock().unwrap().recv_timeout(PATIENCE);
        ended.expect("the gateway ends");
    }

    /// A modern request, with the headers that belong to it.
    pub fn modern(&self, request: &Value) -> Reply {
        let headers = wire::modern_headers(request);
        let headers: Vec<_> = headers.iter().map(|(n, v)| (&**n, &**v)).collect();
        wire::send(self.address, "POST", &headers, &request.to_string())
    }

    /// A legacy client that has shaken hands.
    #[track_caller]
    pub fn client(&self) -> Client {
        let reply = wire::send(self.address, "POST", &[], &wire::initialize(0).to_string());
        assert_eq!(reply.status, 200);
        let session = reply.header("mcp-session-id").expect("a session");
        let client = Client {
            address: self.address,
            session: session.to_owned(),
        };
        let told = client.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        assert_eq!(told.status, 202);
        client
    }

    /// Processes of this test that are alive.
    pub fn processes(&self) -> Vec<u32> {
        tree::marked(&self.setup.mark)
    }
}

/// A legacy client.
#[derive(Clone)]
pub struct Client {
    pub address: SocketAddr,
    pub session: String,
}

impl Client {
    fn headers(&self) -> [(&str, &str); 2] {
        [
            ("Mcp-Session-Id", &self.session),
            ("MCP-Protocol-Version", "2025-11-25"),
        ]
    }

    pub fn post(&self, message: &Value) -> Reply {
        wire::send(self.address, "POST", &self.headers(), &message.to_string())
    }

    pub fn call(&self, id: u64, tool: &str, arguments: Value) -> Reply {
        self.post(&wire::call(id, tool, arguments))
    }

    /// The standalone stream.
    pub fn listen(&self) -> Reply {
        wire::send(self.address, "GET", &self.headers(), "")
    }

    pub fn leave(&self) -> Reply {
        wire::send(self.address, "DELETE", &self.headers(), "")
    }
}

/// The text of a tool's result.
#[track_caller]
pub fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("no text in {answer}"))
}

/// The kind of an error of ours.
#[track_caller]
pub fn kind(answer: &Value) -> &str {
    answer["error"]["data"]["outlive"]["kind"]
        .as_str()
        .unwrap_or_else(|| panic!("no kind in {answer}"))
}
