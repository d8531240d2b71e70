//! What every request has to say in its headers (FM-03, FM-44, FM-45).

use crate::Era;
use crate::scenario::Scenario;
use crate::site::{Seen, Site};
use crate::stage::Stage;
use crate::verdict::{Finding, Held};

use super::{SESSIONS, web};

const VERSION: &str = "2025-11-25 basic/transports: Protocol Version Header";
const MIRRORED: &str = "2026-07-28 basic/transports/streamable-http: Standard Request Headers";

pub(super) const SCENARIOS: &[Scenario] = &[
    web("session-header", |stage| Box::pin(session(stage)))
        .says("Once there is a session, every request names it.")
        .era(Era::Legacy)
        .fm(&[3])
        .must(SESSIONS),
    web("version-header", |stage| Box::pin(version(stage)))
        .says("Once a version is agreed on, every request names it.")
        .era(Era::Legacy)
        .fm(&[44])
        .must(VERSION),
    web("mirrored-headers", |stage| Box::pin(mirrored(stage)))
        .says("The version, the method and the name of a request stand in its headers as in its body.")
        .era(Era::Modern)
        .fm(&[45])
        .must(MIRRORED),
];

/// What is sent after a handshake: a notification, calls, a list, perhaps a GET.
async fn conversation(stage: &mut Stage) -> Result<Site, Finding> {
    let (mut driver, site) = stage.visiting().await?;
    driver.works("at first").await?;
    driver.tools("at first").await?;
    site.wait_for("notifications/initialized", |all| {
        let mut all = all.iter();
        all.find(|seen| seen.says("notifications/initialized"))
            .map(drop)
    })
    .await?;
    Ok(site)
}

/// The first request after the handshake that lacks something.
fn lacking(site: &Site, lacks: impl Fn(&Seen) -> bool) -> Option<String> {
    site.look(|all| {
        let after = all.iter().skip_while(|seen| !seen.says("initialize"));
        let mut after = after.skip(1).filter(|seen| !seen.says("initialize"));
        after.find(|seen| lacks(seen)).map(|seen| {
            let method = seen.message["method"].as_str().unwrap_or_default();
            format!("{} {method}", seen.verb).trim_end().to_owned()
        })
    })
}

async fn session(stage: &mut Stage) -> Held {
    let site = conversation(stage).await?;
    match lacking(&site, |seen| seen.session().is_none()) {
        Some(what) => Finding::broken(format!("{what} came without Mcp-Session-Id.")),
        None => Ok(()),
    }
}

async fn version(stage: &mut Stage) -> Held {
    let site = conversation(stage).await?;
    match lacking(&site, |seen| seen.header("MCP-Protocol-Version").is_none()) {
        Some(what) => Finding::broken(format!("{what} came without MCP-Protocol-Version.")),
        None => Ok(()),
    }
}

async fn mirrored(stage: &mut Stage) -> Held {
    let (mut driver, site) = stage.visiting().await?;
    driver.works("at first").await?;
    driver.tools("at first").await?;
    site.look(|all| {
        let requests = all.iter().filter(|seen| seen.message.get("id").is_some());
        for seen in requests {
            let params = &seen.message["params"];
            let version = &params["_meta"]["io.modelcontextprotocol/protocolVersion"];
            // A client may try how an older server would take it.
            if version.is_null() {
                continue;
            }
            let name = match seen.says("tools/call") {
                true => params["name"].as_str(),
                false => None,
            };
            for (header, inside) in [
                ("MCP-Protocol-Version", version.as_str()),
                ("Mcp-Method", seen.message["method"].as_str()),
                ("Mcp-Name", name),
            ] {
                if inside.is_some() && seen.header(header) != inside {
                    return Finding::broken(format!(
                        "{} came with {header} {:?}, and {:?} in its body.",
                        seen.message["method"],
                        seen.header(header).unwrap_or_default(),
                        inside.unwrap_or_default(),
                    ));
                }
            }
        }
        Ok(())
    })
}
