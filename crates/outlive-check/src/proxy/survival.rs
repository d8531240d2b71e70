//! What is left of a proxy when one of its sides is gone (FM-02, FM-05, FM-09, FM-17, FM-36).

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::puppet::{Habits, Puppet, Start};
use crate::race::race;
use crate::scenario::{Over, Scenario};
use crate::stage::Stage;
use crate::tool::ToolCall;
use crate::verdict::{Finding, Held};

use super::proxy;
use super::stage::Between;

const SHUTDOWN: &str = "2025-11-25 basic/lifecycle: Shutdown, stdio";

pub(super) const SCENARIOS: &[Scenario] = &[
    proxy("death-in-call", |stage| Box::pin(in_call(stage)))
        .says("A call in flight when the server dies is answered, with an error.")
        .fm(&[5, 36]),
    proxy("death-when-idle", |stage| Box::pin(when_idle(stage)))
        .says("A call after the server died unnoticed is answered, one way or the other.")
        .fm(&[1, 36]),
    proxy("restart-after-death", |stage| Box::pin(restart(stage)))
        .says("After the server's death another one is started, and calls go through once more.")
        .fm(&[2])
        .should("2026-07-28 basic/transports/stdio: Unexpected Termination"),
    proxy("crash-loop", |stage| Box::pin(crash_loop(stage)))
        .says("A server that exits after every handshake is not started again without a pause.")
        .fm(&[17]),
    proxy("start-fails", |stage| Box::pin(start_fails(stage)))
        .says("A host whose server cannot be started is told so, or left, but not kept waiting.")
        .over(Over::Stdio)
        .fm(&[14, 36]),
    proxy("hanging-call", |stage| Box::pin(hanging(stage)))
        .says("A call that is never answered stalls no other.")
        .fm(&[7, 35]),
    proxy("stdout-junk", |stage| Box::pin(junk(stage)))
        .says("What the server prints beside its messages does not reach the host.")
        .over(Over::Stdio)
        .fm(&[11])
        .must("2025-11-25 basic/transports: stdio"),
    proxy("stdout-junk-survived", |stage| Box::pin(junk_survived(stage)))
        .says("What the server prints beside its messages does not end the connection.")
        .fm(&[11, 58]),
    proxy("stderr-flood", |stage| Box::pin(stderr_flood(stage)))
        .says("A server that writes a lot to standard error is not stopped by that.")
        .fm(&[29]),
    proxy("cancel-races-answer", |stage| Box::pin(races(stage)))
        .says("Cancellations that meet the answer leave the proxy alive, and no call with two answers.")
        .fm(&[18, 19])
        .must("2025-11-25 basic/utilities/cancellation: Timing Considerations"),
    proxy("host-leaves", |stage| Box::pin(leaves(stage)))
        .says("When the host closes the proxy's input, the server is ended too, and nothing is left.")
        .over(Over::Stdio)
        .fm(&[9, 10])
        .should(SHUTDOWN),
    proxy("host-leaves-in-call", |stage| Box::pin(leaves_in_call(stage)))
        .says("A host that leaves with a call in flight leaves nothing behind either.")
        .over(Over::Stdio)
        .fm(&[9, 10, 20])
        .should(SHUTDOWN),
    proxy("host-vanishes", |stage| Box::pin(vanishes(stage)))
        .says("A host that neither reads nor writes any more is noticed: the server is ended.")
        .over(Over::Stdio)
        .fm(&[10]),
];

async fn in_call(stage: &mut Stage) -> Held {
    let mut all = stage.between().await?;
    let id = all
        .host
        .request("tools/call", json!({ "name": "slow", "arguments": {} }))
        .await;
    all.server.called("slow").await?;
    all.server.die();
    let answer = all
        .host
        .answer(&id, "The call in flight when the server was killed")
        .await?;
    match answer.get("error").is_some() || answer["result"]["isError"] == true {
        true => Ok(()),
        false => Finding::broken(format!(
            "A call nobody answered was answered with {answer}."
        )),
    }
}

async fn when_idle(stage: &mut Stage) -> Held {
    let mut all = stage.between().await?;
    all.host.serves("at first").await?;
    die(&mut all).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let call = json!({ "name": "echo", "arguments": { "text": "after" } });
    all.host
        .ask("tools/call", call, "A call after the server's death")
        .await?;
    Ok(())
}

async fn die(all: &mut Between) {
    all.server.die();
    let timeout = all.host.timeout();
    all.server.gone(timeout).await;
}

async fn restart(stage: &mut Stage) -> Held {
    let mut all = stage.between().await?;
    all.host.serves("at first").await?;
    die(&mut all).await;
    let deadline = Instant::now() + all.host.timeout();
    loop {
        let call = json!({ "name": "echo", "arguments": { "text": "after" } });
        let answer = all
            .host
            .ask("tools/call", call, "A call after the server's death")
            .await?;
        if answer["result"]["content"][0]["text"] == "after" {
            return Ok(());
        }
        if answer["status"] == 404 {
            // Over HTTP this says that the session is over; a client begins another.
            all.host.web().forget_session();
            all.host.handshake().await?;
        }
        if Instant::now() > deadline {
            return Finding::broken(format!(
                "{:?} after the server's death calls are still answered with {answer}.",
                all.host.timeout()
            ));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn crash_loop(stage: &mut Stage) -> Held {
    const MOST: usize = 20;
    let habits = |_| Habits {
        dies_after_handshake: Some(1),
        ..Habits::default()
    };
    let mut opened = stage.opened(habits).await?;
    opened.host.timeout = Duration::from_secs(2);
    // Whether this goes well is not the question.
    let _ = opened.host.handshake().await;
    opened.host.request("server/discover", json!({})).await;
    opened.host.linger(Duration::from_secs(4)).await;
    let starts = opened.puppets.starts();
    opened
        .host
        .note(format!("the server was started {starts} times"));
    match starts > MOST {
        true => Finding::broken(format!(
            "The server was started {starts} times within seconds."
        )),
        false => Ok(()),
    }
}

async fn start_fails(stage: &mut Stage) -> Held {
    let habits = |_| Habits {
        start: Start::Fails(17, "Error: DATABASE_URL is not set\n"),
        ..Habits::default()
    };
    let mut opened = stage.opened(habits).await?;
    let message = match opened.host.era {
        crate::Era::Legacy => (
            "initialize",
            crate::host::initialize(crate::Era::Legacy.newest()),
        ),
        crate::Era::Modern => ("server/discover", json!({})),
    };
    let id = opened.host.request(message.0, message.1).await;
    let timeout = 4 * opened.host.timeout();
    // A proxy that exits has told its host enough.
    let told = opened
        .host
        .wait("an answer, or the proxy's end", timeout, |letters| {
            (!letters.responses(&id.0).is_empty() || letters.ended).then_some(())
        });
    match told.await {
        Some(()) => Ok(()),
        None => Finding::broken(format!(
            "{} was not answered within {timeout:?}, and the proxy still runs.",
            message.0
        )),
    }
}

async fn hanging(stage: &mut Stage) -> Held {
    let mut all = stage.between().await?;
    all.host
        .request("tools/call", json!({ "name": "slow", "arguments": {} }))
        .await;
    all.server.called("slow").await?;
    all.host.serves("while another call hangs").await
}

fn print_junk(server: &Puppet) {
    server.raw("Server is listening…\n\n{\"level\":\"info\"}\n[1,2\n");
    server.raw(b"\xff\xfe\n".to_vec());
}

async fn junk(stage: &mut Stage) -> Held {
    let mut all = stage.between().await?;
    print_junk(&all.server);
    // Whoever does not survive it may be silent, but must not say this.
    all.host.timeout = all.host.timeout.min(Duration::from_secs(5));
    let _ = all.host.serves("after junk on standard output").await;
    match all.host.look(|letters| letters.junk.first().cloned()) {
        None => Ok(()),
        Some(line) => Finding::broken(format!("The host got the line {line:?}.")),
    }
}

async fn junk_survived(stage: &mut Stage) -> Held {
    let mut all = stage.between().await?;
    print_junk(&all.server);
    all.host.serves("after junk on standard output").await
}

async fn stderr_flood(stage: &mut Stage) -> Held {
    let mut all = stage.between().await?;
    for _ in 0..16 {
        all.server
            .stderr("ERROR: everything is fine, really\n".repeat(2000));
    }
    all.server.stderr(vec![b'x'; 1 << 20]);
    all.server.stderr(b"\n".to_vec());
    all.host.serves("after a flood on standard error").await
}

async fn races(stage: &mut Stage) -> Held {
    let mut all = stage.between().await?;
    let echo = ToolCall {
        name: "echo".into(),
        arguments: json!({ "text": "x" }),
    };
    race(&mut all.host, &echo, &mut stage.random).await
}

async fn leaves(stage: &mut Stage) -> Held {
    let mut all = stage.between().await?;
    all.host.serves("at first").await?;
    all.host.close_input();
    nothing_left(&mut all).await
}

async fn leaves_in_call(stage: &mut Stage) -> Held {
    let mut all = stage.between().await?;
    all.host
        .request("tools/call", json!({ "name": "slow", "arguments": {} }))
        .await;
    all.server.called("slow").await?;
    all.host.close_input();
    nothing_left(&mut all).await
}

async fn vanishes(stage: &mut Stage) -> Held {
    let mut all = stage.between().await?;
    all.host.serves("at first").await?;
    all.host.close_output().await;
    all.host.close_input();
    // It may only find out when it has something to say.
    all.server.notify(
        "notifications/message",
        json!({ "level": "info", "data": "x" }),
    );
    nothing_left(&mut all).await
}

async fn nothing_left(all: &mut Between) -> Held {
    // Some let the server finish first.
    let timeout = 3 * all.host.timeout();
    if !all.server.gone(timeout).await {
        return Finding::broken(format!(
            "The server still runs {timeout:?} after the host left."
        ));
    }
    let timeout = all.host.timeout();
    all.host
        .end("The proxy's end after the host left", timeout)
        .await?;
    Ok(())
}
