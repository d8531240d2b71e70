//! The host leaves, politely or not (FM-10, FM-20, FM-54, FM-56).

use crate::process::ending;
use crate::scenario::{Level, Over, Scenario, Subject};
use crate::stage::Stage;
use crate::verdict::{Finding, Held};

use super::seconds;

const SHUTDOWN: Option<&str> = Some("2026-07-28 basic/transports/stdio: Shutdown");

pub(super) const SCENARIOS: &[Scenario] = &[Scenario {
    name: "eof-when-idle",
    subject: Subject::Server,
    over: Over::Stdio,
    era: None,
    fm: &[10],
    level: Level::Should,
    statement: "A server exits promptly, with status 0, when its input ends.",
    clause: SHUTDOWN,
    bound: seconds(30),
    run: |stage| Box::pin(idle(stage)),
}];

async fn idle(stage: &mut Stage) -> Held {
    let mut host = stage.ready().await?;
    host.serves("at first").await?;
    host.close_input();
    let patience = host.patience();
    let status = host
        .end("the server's end after the end of its input", patience)
        .await?;
    match status.success() {
        true => Ok(()),
        false => Finding::broken(format!(
            "The server {} when its input ended.",
            ending(status)
        )),
    }
}
