//! What happens in the demo, scene by scene.

use serde_json::json;

use super::stage::Stage;
use super::tally::{Claim, Expected};
use crate::system::Process;

/// Four kills and one hang; one call was running that is safe to repeat.
pub const EXPECTED: Expected = Expected {
    faults: 5,
    retried: 1,
};

/// Plays all scenes. An error is a sentence: the demo could not go on.
pub fn play(stage: &mut Stage) -> Result<(), String> {
    for scene in [
        start,
        killed_while_idle,
        killed_during_a_call,
        killed_during_a_safe_call,
        cancelled,
        called_while_down,
        junk,
        hung,
        still_there,
    ] {
        scene(stage)?;
        stage.pause()?;
    }
    Ok(())
}

fn start(stage: &mut Stage) -> Result<(), String> {
    stage.scene("The server starts");
    let host = json!({ "name": "demo-host", "version": env!("CARGO_PKG_VERSION") });
    stage.ask(
        "initialize",
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": host }),
    )?;
    stage.ready(1)?;
    stage.notify("notifications/initialized", json!({}))?;
    stage.ask("tools/list", json!({}))?;
    stage.tally.handles = stage.tools().len();
    if stage.tally.handles == 0 {
        stage.tally.odd("The host got no tools.");
    }
    stage.call_and_wait("pid", Claim::Result)
}

fn killed_while_idle(stage: &mut Stage) -> Result<(), String> {
    stage.scene("It is killed while nobody uses it: the next call works");
    let before = stage.server();
    stage.kill()?;
    stage.ready(2)?;
    stage.call_and_wait("pid", Claim::Result)?;
    if stage.server() == before {
        stage
            .tally
            .odd("The server that was killed answered again.");
    }
    Ok(())
}

fn killed_during_a_call(stage: &mut Stage) -> Result<(), String> {
    stage.scene("It is killed in the middle of a call: that call fails at once and says why");
    let call = stage.call("deploy", Claim::Error("connection_lost"))?;
    stage.progress(call)?;
    stage.kill()?;
    stage.answer(call)?;
    if !stage.words(call).contains(Process::KILL.1) {
        stage.tally.odd("The error does not name the signal.");
    }
    stage.ready(3)?;
    stage.call_and_wait("deploy", Claim::Result)
}

fn killed_during_a_safe_call(stage: &mut Stage) -> Result<(), String> {
    stage.scene("It is killed in the middle of a call that is safe to repeat: nobody notices");
    let call = stage.call("search", Claim::Result)?;
    stage.progress(call)?;
    stage.kill()?;
    stage.ready(4)?;
    stage.answer(call)
}

/// A server that was sent a cancellation is watched so closely that a hang would be found out before
/// the call times out; so another server takes its place before the hang is shown.
fn cancelled(stage: &mut Stage) -> Result<(), String> {
    stage.scene("A call is cancelled, and the server answers it all the same: nobody notices");
    let call = stage.call("deploy", Claim::Silence)?;
    stage.progress(call)?;
    stage.cancel(call)?;
    stage.late(1)?;
    stage.call_and_wait("pid", Claim::Result)
}

fn called_while_down(stage: &mut Stage) -> Result<(), String> {
    stage.scene("It is called while it is down: the calls wait for the next server");
    stage.kill()?;
    stage.lost(4)?;
    let mut calls = Vec::new();
    for tool in ["deploy", "pid", "pid"] {
        calls.push(stage.call(tool, Claim::Result)?);
    }
    stage.ready(5)?;
    for call in calls {
        stage.answer(call)?;
    }
    Ok(())
}

fn junk(stage: &mut Stage) -> Result<(), String> {
    stage.scene("It prints junk and broken UTF-8 where only messages belong: nobody notices");
    stage.call_and_wait("chatter", Claim::Result)
}

fn hung(stage: &mut Stage) -> Result<(), String> {
    stage.scene("It hangs: the call times out, the server is replaced, the next call works");
    stage.hang()?;
    stage.call_and_wait("pid", Claim::Error("timeout"))?;
    stage.ready(6)?;
    stage.call_and_wait("pid", Claim::Result)
}

/// The handles that the host took at the start are all it ever needed.
fn still_there(stage: &mut Stage) -> Result<(), String> {
    stage.scene("The host's tools are the ones it started with");
    let before = stage.tools().to_vec();
    stage.ask("tools/list", json!({}))?;
    let now = stage.tools();
    stage.tally.handles_lost = before.iter().filter(|tool| !now.contains(tool)).count();
    Ok(())
}
