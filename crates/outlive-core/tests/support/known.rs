//! What is known of a message that travels must be what a reading of its bytes says.

use outlive_core::Message;

/// Checks a message that came out of a machine: it is one, on one line, and whoever wrote it, or wrote it anew under
/// another id, knows where everything stands.
pub fn check(message: &Message) -> Result<(), String> {
    let read =
        Message::read(message.bytes().clone()).map_err(|defect| format!("junk: {defect:?}"))?;
    if read.bytes() != message.bytes() || message.bytes().contains(&b'\n') {
        return Err(format!("not one line: {message:?}"));
    }
    match known(message) == known(&read) {
        true => Ok(()),
        false => Err(format!("{message:?} travels, but is {read:?}")),
    }
}

fn known(it: &Message) -> impl PartialEq + '_ {
    let tokens = (
        it.meta_progress_token(),
        it.progress_token(),
        it.request_id(),
    );
    let parts = (it.params(), it.result(), it.error(), it.meta());
    (
        (it.kind(), it.id(), it.id_json(), it.method(), it.name()),
        (parts, tokens, it.subscription_id(), it.has_task()),
    )
}
