//! What a server takes, and what it leaves behind (FM-09, FM-10, FM-29).

use std::time::Duration;

use crate::host::Host;
use crate::measure;
use crate::scenario::{Over, Scenario};
use crate::stage::Stage;
use crate::verdict::{Finding, Held};

use super::{measurable, server};

pub(super) const SCENARIOS: &[Scenario] = &[
    server("nothing-left-behind", |stage| Box::pin(left_behind(stage)))
        .says("A server that was asked to leave by the end of its input leaves no process behind.")
        .over(Over::Stdio)
        .fm(&[9, 10])
        .seconds(40),
    server("idle-without-computing", |stage| Box::pin(idle(stage)))
        .says("A server that is asked nothing computes next to nothing.")
        .over(Over::Stdio)
        .fm(&[10]),
    server("descriptors-stay", |stage| Box::pin(descriptors(stage)))
        .says("Calls, also when cancelled too late, leave no descriptor open.")
        .over(Over::Stdio)
        .fm(&[39])
        .seconds(60),
    server("stderr-unread", |stage| Box::pin(stderr_unread(stage)))
        .says("A host that does not read standard error still gets its answers.")
        .over(Over::Stdio)
        .fm(&[29])
        .seconds(60),
];

async fn left_behind(stage: &mut Stage) -> Held {
    measurable()?;
    let mut host = stage.ready().await?;
    host.serves("at first").await?;
    let before = host.process().family().len();
    host.note(format!("{before} processes"));
    host.close_input();
    // Whether it exits at all is another scenario's question.
    let timeout = host.timeout();
    host.process().end(timeout).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let left: Vec<String> = host
        .process()
        .family()
        .into_iter()
        .map(measure::name)
        .collect();
    match left.is_empty() {
        true => Ok(()),
        false => Finding::broken(format!("Still there: {}.", left.join(", "))),
    }
}

async fn idle(stage: &mut Stage) -> Held {
    measurable()?;
    let mut host = stage.ready().await?;
    host.serves("at first").await?;
    host.linger(Duration::from_millis(500)).await;
    const TIME: Duration = Duration::from_secs(2);
    let before = computed(&mut host);
    host.linger(TIME).await;
    let took = computed(&mut host).saturating_sub(before);
    host.note(format!("it computed for {took:?} of {TIME:?}"));
    // On a machine with more work than processors a loop gets little more than that.
    match took > TIME / 20 {
        true => Finding::broken(format!(
            "With nothing to do it computed for {took:?} of {TIME:?}."
        )),
        false => Ok(()),
    }
}

fn computed(host: &mut Host) -> Duration {
    host.process()
        .family()
        .into_iter()
        .filter_map(measure::computed)
        .sum()
}

async fn descriptors(stage: &mut Stage) -> Held {
    measurable()?;
    const CALLS: usize = 40;
    let quick = stage.quick()?;
    let mut host = stage.ready().await?;
    let round = async |host: &mut Host| -> Result<usize, Finding> {
        for nth in 0..CALLS {
            let id = host.call(&quick).await;
            host.answer(&id, "a call").await?;
            if nth % 2 == 1 {
                // Too late to meet the answer, which is another scenario's question.
                host.cancel(&id).await;
            }
        }
        host.serves("between the rounds").await?;
        host.linger(Duration::from_millis(300)).await;
        let family = host.process().family();
        let open = family.into_iter().filter_map(measure::descriptors).sum();
        host.note(format!("{open} descriptors are open"));
        Ok(open)
    };
    // The first round may open what is kept for good: a pool, a log, a wake-up pipe.
    round(&mut host).await?;
    let before = round(&mut host).await?;
    let after = round(&mut host).await?;
    match after >= before + CALLS / 2 {
        true => Finding::broken(format!(
            "{CALLS} calls left {} descriptors open.",
            after - before
        )),
        false => Ok(()),
    }
}

async fn stderr_unread(stage: &mut Stage) -> Held {
    const CALLS: usize = 300;
    let quick = stage.quick()?;
    let mut host = stage.start_with_stderr_unread().await?;
    host.handshake().await?;
    for nth in 1..=CALLS {
        let id = host.call(&quick).await;
        let what = format!("call {nth} of {CALLS}, with standard error unread");
        host.answer(&id, &what).await?;
    }
    Ok(())
}
