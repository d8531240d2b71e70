//! What a process does: one face of outlive, or the server behind it.

use std::io::{Read, Write};
use std::path::Path;

use outlive::client::Era;
use outlive::policy::Policy;
use outlive::server::Ctx;
use outlive::{Client, Command, Gateway, Observer, Remote, Run, Server, run, run_remote};
use outlive_core::{Event, Time};
use serde_json::json;

/// The folder where each process leaves what it has read.
pub const FOLDER: &str = "OUTLIVE_TEST_READS";

/// Plays this role to its end, and tells how many lines were read.
pub fn play(name: &str, arguments: &[String]) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let url = || Remote::new(arguments.last().expect("an address"));
    match name {
        "server" => runtime.block_on(async { server().serve_stdio().await.expect("to be served") }),
        "http_server" => runtime.block_on(async {
            let server = server();
            let handle = server.handle();
            let listening = server.http().bind("127.0.0.1:0").await.expect("a port");
            tell_address(listening.local_addr());
            std::thread::spawn(move || {
                wait_for_end();
                handle.shutdown();
            });
            listening.serve().await.expect("to be served");
        }),
        "run" => runtime.block_on(async {
            let ended = run(Run::new(command(), Policy::default(), Nobody)).await;
            ended.expect("to run");
        }),
        "run_url" => runtime.block_on(async {
            let ended = run_remote(url(), Policy::default(), Nobody, false).await;
            ended.expect("to run");
        }),
        "serve" => runtime.block_on(serve(
            Gateway::command(command())
                .share(arguments[0] == "shared")
                .build(),
        )),
        "serve_url" => runtime.block_on(serve(Gateway::remote(url()).build())),
        "client" => runtime.block_on(async {
            let client = Client::builder()
                .command(command())
                .era(Era::Legacy)
                .connect();
            call(client.await.expect("a client"), &arguments[0]).await;
        }),
        "client_url" => runtime.block_on(async {
            let client = Client::builder().url(url()).era(Era::Legacy).connect();
            call(client.await.expect("a client"), &arguments[0]).await;
        }),
        other => panic!("no such role: {other}"),
    }
    // A server is a part of the walk of whoever started it.
    let file = match name {
        "server" | "http_server" => "server",
        _ => "walker",
    };
    #[cfg(debug_assertions)]
    leave(file, outlive_core::message::reads::count());
    #[cfg(not(debug_assertions))]
    leave(file, 0);
}

fn leave(file: &str, reads: u64) {
    let folder = std::env::var_os(FOLDER).expect("a folder");
    std::fs::write(Path::new(&folder).join(file), reads.to_string()).expect("a file");
}

/// The server behind every face, over pipes.
fn command() -> Command {
    let this = std::env::current_exe().expect("this program");
    Command::new(this, ["role:server"])
}

fn server() -> Server {
    Server::builder("reads", "1")
        .tool("step", "", |ctx: Ctx, (): ()| async move {
            ctx.progress(1.0, None);
            "done"
        })
        .build()
}

async fn serve(gateway: Gateway) {
    let listening = gateway.http().bind("127.0.0.1:0").await.expect("a port");
    tell_address(listening.local_addr());
    std::thread::spawn(move || {
        wait_for_end();
        gateway.shutdown();
    });
    listening.serve().await.expect("to be served");
}

async fn call(client: Client, calls: &str) {
    for _ in 0..calls.parse().expect("a number") {
        let mut call = client.call("step", json!({})).progress().start();
        let mut steps = call.progress().expect("progress");
        assert!(steps.next().await.is_some());
        assert_eq!(call.await.expect("a result").text(), "done");
    }
    client.close().await;
}

fn tell_address(address: std::net::SocketAddr) {
    println!("http://{address}/mcp");
    std::io::stdout().flush().expect("a reader");
}

fn wait_for_end() {
    let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
}

struct Nobody;

impl Observer for Nobody {
    fn event(&self, _: Option<u64>, _: Time, _: &Event) {}

    fn stderr(&self, _: Option<u64>, line: &str) {
        eprintln!("{line}");
    }
}
