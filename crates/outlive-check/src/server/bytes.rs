//! Bytes that are no message, or a message in an unusual wrapping (FM-57 to FM-60).

use crate::host::Host;
use crate::measure;
use crate::scenario::{Level, Over, Scenario, Subject};
use crate::stage::Stage;
use crate::verdict::{Finding, Held};

use super::{measurable, seconds};

pub(super) const SCENARIOS: &[Scenario] = &[Scenario {
    name: "endless-line",
    subject: Subject::Server,
    over: Over::Stdio,
    era: None,
    fm: &[60],
    level: Level::Advice,
    statement: "A line without end does not fill the server's memory.",
    clause: None,
    bound: seconds(60),
    run: |stage| Box::pin(endless_line(stage)),
}];

async fn endless_line(stage: &mut Stage) -> Held {
    /// Three times what generous servers take.
    const SENT: usize = 192 << 20;
    measurable()?;
    let mut host = stage.ready().await?;
    host.serves("at first").await?;
    let before = resident(&mut host);
    let _ = host
        .raw(r#"{"jsonrpc":"2.0","id":"endless","method":"ping","params":{"pad":""#)
        .await;
    let piece = vec![b'x'; 4 << 20];
    let mut most = before;
    for sent in (0..SENT).step_by(piece.len()) {
        if host.raw(&piece).await.is_err() {
            // It has had enough, which is one way to bound it.
            host.note(format!("no more was taken after {} MiB", sent >> 20));
            break;
        }
        most = most.max(resident(&mut host));
    }
    let grown = most.saturating_sub(before);
    host.note(format!("its memory grew by {} MiB", grown >> 20));
    match grown >= SENT as u64 {
        true => Finding::broken(format!(
            "A line of {} MiB made the server grow by {} MiB.",
            SENT >> 20,
            grown >> 20
        )),
        false => Ok(()),
    }
}

fn resident(host: &mut Host) -> u64 {
    let family = host.process().family();
    family.into_iter().filter_map(measure::resident).sum()
}
