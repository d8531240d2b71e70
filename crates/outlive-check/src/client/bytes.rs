//! What a server writes beside its messages, and in what pieces (FM-11, FM-29, FM-57 to FM-60).

use std::time::Duration;

use crate::puppet;
use crate::scenario::{Over, Scenario};
use crate::stage::Stage;
use crate::verdict::{Finding, Held};

use super::client;

const STDIO: &str = "2025-11-25 basic/transports: stdio";

pub(super) const SCENARIOS: &[Scenario] = &[
    client("stdout-junk", |stage| Box::pin(junk(stage)))
        .says("Lines on standard output that are no messages are skipped.")
        .over(Over::Stdio)
        .fm(&[11]),
    client("invalid-utf8", |stage| Box::pin(invalid_utf8(stage)))
        .says("Bytes on standard output that are no UTF-8 cost no more than their line.")
        .over(Over::Stdio)
        .fm(&[58]),
    client("blank-lines-and-crlf", |stage| Box::pin(blank_lines(stage)))
        .says("Blank lines, and lines that end in CR LF, do no harm.")
        .over(Over::Stdio)
        .fm(&[59]),
    client("split-and-glued", |stage| Box::pin(split(stage)))
        .says("Messages are told apart by line ends, however the bytes arrive.")
        .over(Over::Stdio)
        .fm(&[57])
        .must(STDIO),
    client("big-answer", |stage| Box::pin(big(stage)))
        .says("An answer of several megabytes arrives whole.")
        .over(Over::Stdio)
        .fm(&[60]),
    client("stderr-flood", |stage| Box::pin(stderr_flood(stage)))
        .says("A server that writes a lot to standard error is neither stopped by that nor taken for broken.")
        .over(Over::Stdio)
        .fm(&[29])
        .should(STDIO),
];

async fn junk(stage: &mut Stage) -> Held {
    let (mut driver, puppet, _puppets) = stage.connected().await?;
    puppet.raw("Server is listening…\n\x1b[32minfo\x1b[0m ready\n");
    driver.works("after a banner").await?;
    puppet.raw("{\"level\":\"info\",\"msg\":\"not a message\"}\n{\"jsonrpc\":\"2.0\",\n[1,2\n42\n\"text\"\n");
    driver.works("after lines that are almost messages").await?;
    let call = driver.call("slow", "").await;
    let request = puppet.called("slow").await?;
    puppet.raw("DEBUG: working on it\n");
    puppet.answer(&request, "done");
    driver
        .succeeds(call, "A call with a line of junk before its answer")
        .await?;
    Ok(())
}

async fn invalid_utf8(stage: &mut Stage) -> Held {
    let (mut driver, puppet, _puppets) = stage.connected().await?;
    puppet.raw(b"\xff\xfe\x80\n\xc0\xaf\n".to_vec());
    driver.works("after lines that are no UTF-8").await
}

async fn blank_lines(stage: &mut Stage) -> Held {
    let (mut driver, puppet, _puppets) = stage.connected().await?;
    puppet.raw("\n\r\n\n");
    driver.works("after blank lines").await?;
    let call = driver.call("slow", "").await;
    let request = puppet.called("slow").await?;
    puppet.raw(format!("{}\r\n", puppet::answer(&request, "done")));
    driver
        .succeeds(call, "A call whose answer ends in CR LF")
        .await?;
    driver.works("after a line that ended in CR LF").await
}

async fn split(stage: &mut Stage) -> Held {
    let (mut driver, puppet, _puppets) = stage.connected().await?;
    let call = driver.call("slow", "").await;
    let request = puppet.called("slow").await?;
    let answer = format!("{}\n", puppet::answer(&request, "h\u{e9} \u{1f980}"));
    // The characters of several bytes are cut, too.
    for byte in answer.into_bytes() {
        puppet.raw([byte]);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let said = driver
        .succeeds(call, "A call whose answer came byte by byte")
        .await?;
    if said != "h\u{e9} \u{1f980}" {
        return Finding::broken(format!("An answer that came byte by byte became {said}."));
    }
    let (first, second) = (driver.call("slow", "").await, driver.call("slow", "").await);
    let one = puppet.called_times("slow", 2).await?;
    let two = puppet.called_times("slow", 3).await?;
    puppet.raw(format!(
        "{}\n{}\n",
        puppet::answer(&two, "2"),
        puppet::answer(&one, "1")
    ));
    driver
        .succeeds(first, "The first of two calls answered in one write")
        .await?;
    driver
        .succeeds(second, "The second of two calls answered in one write")
        .await?;
    Ok(())
}

async fn big(stage: &mut Stage) -> Held {
    const SIZE: usize = 4 << 20;
    let (mut driver, puppet, _puppets) = stage.connected().await?;
    let call = driver.call("slow", "").await;
    let request = puppet.called("slow").await?;
    puppet.answer(&request, &"x".repeat(SIZE));
    let said = driver
        .succeeds(call, "A call with an answer of 4 MiB")
        .await?;
    match said.as_str().map(str::len) == Some(SIZE) {
        true => driver.works("after a big answer").await,
        false => Finding::broken("An answer of 4 MiB did not arrive whole."),
    }
}

async fn stderr_flood(stage: &mut Stage) -> Held {
    let (mut driver, puppet, _puppets) = stage.connected().await?;
    let call = driver.call("slow", "").await;
    let request = puppet.called("slow").await?;
    for _ in 0..16 {
        puppet.stderr("ERROR: everything is fine, really\n".repeat(2000));
    }
    puppet.stderr(vec![b'x'; 1 << 20]);
    puppet.answer(&request, "done");
    driver
        .succeeds(call, "A call after 2 MiB on standard error")
        .await?;
    driver.works("after a flood on standard error").await
}
