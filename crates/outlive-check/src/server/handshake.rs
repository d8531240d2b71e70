//! The handshake too early, twice, not at all, and in the words of the other era (FM-42 to FM-44, FM-47).

use serde_json::{Value, json};

use crate::Era;
use crate::host::initialize;
use crate::scenario::{Over, Scenario};
use crate::stage::Stage;
use crate::verdict::{Finding, Held};

use super::server;

const NEGOTIATION: &str = "2025-11-25 basic/lifecycle: Version Negotiation";
const VERSIONS: &str = "2026-07-28 basic/versioning: Protocol Version Negotiation";

pub(super) const SCENARIOS: &[Scenario] = &[
    server("request-before-handshake", |stage| {
        Box::pin(too_early(stage))
    })
    .says("A request before the handshake is answered, and the handshake still works.")
    .over(Over::Stdio)
    .era(Era::Legacy)
    .fm(&[47]),
    server("initialize-twice", |stage| Box::pin(twice(stage)))
        .says("A second initialize is answered, and the server serves on.")
        .over(Over::Stdio)
        .era(Era::Legacy)
        .fm(&[47]),
    server("initialize-malformed", |stage| Box::pin(malformed(stage)))
        .says("An initialize that makes no sense is answered, and a proper one still works.")
        .over(Over::Stdio)
        .era(Era::Legacy)
        .fm(&[47, 63]),
    server("initialized-missing", |stage| {
        Box::pin(initialized_missing(stage))
    })
    .says("A request before notifications/initialized is answered.")
    .era(Era::Legacy)
    .fm(&[47]),
    server("unknown-version", |stage| Box::pin(unknown_version(stage)))
        .says("An initialize for an unknown version is answered with a version the server has.")
        .must(NEGOTIATION)
        .era(Era::Legacy)
        .fm(&[44]),
    server("discover-before-handshake", |stage| {
        Box::pin(discover(stage))
    })
    .says("A probe with server/discover is answered; if with an error, the handshake still works.")
    .over(Over::Stdio)
    .era(Era::Legacy)
    .fm(&[42, 43]),
    server("unsupported-version", |stage| Box::pin(unsupported(stage)))
        .says("A request of an unknown version is refused with -32022 and the versions there are.")
        .must(VERSIONS)
        .era(Era::Modern)
        .fm(&[44]),
];

async fn too_early(stage: &mut Stage) -> Held {
    let mut host = stage.start().await?;
    host.ask("tools/list", json!({}), "a request before the handshake")
        .await?;
    host.handshake().await?;
    host.serves("after a request before the handshake").await
}

async fn twice(stage: &mut Stage) -> Held {
    let mut host = stage.ready().await?;
    let params = initialize(Era::Legacy.newest());
    host.ask("initialize", params, "a second initialize")
        .await?;
    host.notify("notifications/initialized", json!({})).await;
    host.serves("after a second initialize").await
}

async fn malformed(stage: &mut Stage) -> Held {
    let mut host = stage.start().await?;
    for params in [
        json!({}),
        json!({ "protocolVersion": 7, "capabilities": "none" }),
    ] {
        let what = format!("initialize with {params}");
        let answer = host.ask("initialize", params, &what).await?;
        if answer.get("result").is_some() {
            // Lenient: then the handshake is done, and a second one is another question.
            host.notify("notifications/initialized", json!({})).await;
            return host.serves(&format!("after {what}")).await;
        }
    }
    host.handshake().await?;
    host.serves("after an initialize that makes no sense").await
}

async fn initialized_missing(stage: &mut Stage) -> Held {
    let mut host = stage.start().await?;
    host.ask("initialize", initialize(Era::Legacy.newest()), "initialize")
        .await?;
    host.ask(
        "tools/list",
        json!({}),
        "a request before notifications/initialized",
    )
    .await?;
    host.notify("notifications/initialized", json!({})).await;
    host.serves("after notifications/initialized").await
}

async fn unknown_version(stage: &mut Stage) -> Held {
    const UNKNOWN: &str = "1999-12-31";
    let mut host = stage.start().await?;
    let what = format!("initialize for version {UNKNOWN}");
    let answer = host.ask("initialize", initialize(UNKNOWN), &what).await?;
    match answer["result"]["protocolVersion"].as_str() {
        Some(UNKNOWN) => Finding::broken(format!("It claims to speak {UNKNOWN}.")),
        Some(_) => Ok(()),
        // The page itself shows such an error.
        None if answer.get("error").is_some() => Ok(()),
        None => Finding::broken(format!("{what} was answered with {answer}")),
    }
}

async fn discover(stage: &mut Stage) -> Held {
    let mut host = stage.start().await?;
    let params = json!({ "_meta": meta(Era::Modern.newest()) });
    let what = "server/discover before the handshake";
    let answer = host.ask("server/discover", params, what).await?;
    if answer["result"]["supportedVersions"].is_array() {
        // A server of both eras: the probe has found what it looked for.
        return Ok(());
    }
    host.handshake().await?;
    host.serves("after server/discover").await
}

async fn unsupported(stage: &mut Stage) -> Held {
    let mut host = stage.ready().await?;
    let params = json!({ "_meta": meta("1999-12-31") });
    let answer = host
        .ask("tools/list", params, "a request of an unknown version")
        .await?;
    if answer["error"]["code"] != -32022 || !answer["error"]["data"]["supported"].is_array() {
        return Finding::broken(format!(
            "A request of an unknown version was answered with {answer}"
        ));
    }
    host.serves("after a request of an unknown version").await
}

fn meta(version: &str) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": { "name": "outlive check", "version": "0" },
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}
