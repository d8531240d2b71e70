//! Drives the client of `outlive`.

use std::collections::HashMap;

use outlive::client::{Canceller, State};
use outlive::{Client, Command, Error};
use outlive_check_drivers::{Errand, Errands};
use serde_json::Value;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut errands = Errands::begin(concat!("outlive ", env!("CARGO_PKG_VERSION")));
    let mut client: Option<Client> = None;
    let mut calls: HashMap<u64, Canceller> = HashMap::new();
    while let Some(errand) = errands.next().await {
        match (errand.verb(), &client) {
            ("connect", _) => match connect(&errand).await {
                Ok(connected) => {
                    errand.ok(true);
                    client = Some(connected);
                }
                Err(error) => fail(&errand, &error),
            },
            (_, None) => errand.failed("other", "not connected"),
            ("list", Some(client)) => {
                let client = client.clone();
                tokio::spawn(async move {
                    match client.tools().await {
                        Ok(tools) => errand.ok(tools
                            .iter()
                            .map(|tool| Value::from(&*tool.name))
                            .collect::<Vec<_>>()),
                        Err(error) => fail(&errand, &error),
                    }
                });
            }
            ("call", Some(client)) => {
                let tool = errand.body["tool"].as_str().unwrap_or_default();
                let call = client
                    .call(tool, &errand.body["arguments"])
                    .progress()
                    .start();
                calls.insert(errand.n, call.canceller());
                tokio::spawn(async move {
                    match call.await {
                        Ok(result) => errand.ok(result.text()),
                        Err(error) => fail(&errand, &error),
                    }
                });
            }
            ("cancel", Some(_)) => {
                let call = errand.body["call"].as_u64().and_then(|n| calls.get(&n));
                if let Some(canceller) = call {
                    canceller.cancel("the check said so");
                }
                errand.ok(true);
            }
            ("state", Some(client)) => errand.ok(match client.state() {
                State::Ready { .. } => "connected",
                _ => "disconnected",
            }),
            ("close", Some(client)) => {
                client.close().await;
                errand.ok(true);
            }
            (verb, Some(_)) => errand.failed("unsupported", &format!("there is no {verb}")),
        }
    }
}

async fn connect(errand: &Errand) -> Result<Client, Error> {
    if let Some(url) = errand.body["url"].as_str() {
        return Client::builder().url(url).connect().await;
    }
    let mut command = errand.command().into_iter();
    let program = command.next().unwrap_or_default();
    let server = Command::new(program, command);
    Client::builder().command(server).connect().await
}

fn fail(errand: &Errand, error: &Error) {
    let kind = match error {
        Error::ConnectionLost { .. } | Error::Unavailable { .. } | Error::ShuttingDown { .. } => {
            "lost"
        }
        Error::Timeout { .. } => "timeout",
        Error::CancelledByCaller => "cancelled",
        Error::Remote { .. } => "answered",
        _ => "other",
    };
    errand.failed(kind, &error.to_string());
}
