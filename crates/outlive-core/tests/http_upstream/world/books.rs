//! What is checked of each message that leaves, and of each report.

use outlive_core::http_upstream::{MOST_CHALLENGES, MOST_REDIRECTS};
use outlive_core::{LinkInput, Message};

use super::{Broken, World, broken};

impl World {
    /// The server is told that a session is over.
    pub(super) fn left(&self, at: usize) -> Result<(), Broken> {
        let link = &self.links[at];
        match link.denied || link.over || !link.named {
            true => broken(
                6,
                "leave is taken of a session that was denied, or never was",
            ),
            false => Ok(()),
        }
    }

    pub(super) fn posted(
        &mut self,
        at: usize,
        message: &Message,
        moved: bool,
    ) -> Result<(), Broken> {
        let link = &mut self.links[at];
        if link.over {
            return broken(
                6,
                format!("{} leaves after the end of its link", message.method()),
            );
        }
        let text = String::from_utf8_lossy(message.bytes());
        if text.contains("requestState") || text.contains("inputResponses") {
            return broken(4, format!("the server is shown what is ours: {text}"));
        }
        if message.is("notifications/cancelled") {
            let of = message
                .request_id()
                .map(|id| id.to_string())
                .unwrap_or_default();
            let sent = link.sent.entry(of.clone()).or_default();
            sent.cancellations += 1;
            // Sent again at another address, or with other credentials, it is the same one.
            let most = 1 + MOST_REDIRECTS + MOST_CHALLENGES;
            return match (sent.posted, sent.cancellations) {
                (0, _) => broken(
                    2,
                    format!("the cancellation of {of} leaves, and {of} has not"),
                ),
                (_, n) if n > most => {
                    broken(2, format!("the cancellation of {of} leaves {n} times"))
                }
                _ => Ok(()),
            };
        }
        let Some(id) = message.id().filter(|_| !message.method().is_empty()) else {
            return Ok(());
        };
        // Lists for the sake of a call's headers are the link's own.
        if id.to_string().contains("outlive-tools") {
            return Ok(());
        }
        let sent = link.sent.entry(id.to_string()).or_default();
        sent.posted += 1;
        sent.moved += u32::from(moved);
        if sent.posted > sent.allowed {
            return broken(
                4,
                format!(
                    "{id} leaves {} times, and the ledger knows of {}",
                    sent.posted, sent.allowed
                ),
            );
        }
        if sent.cancelled && !message.is("initialize") {
            return broken(2, format!("{id} leaves after it was cancelled"));
        }
        Ok(())
    }

    /// A link says what became of a request, once.
    pub(super) fn reported(&mut self, at: usize, input: &LinkInput) -> Result<(), Broken> {
        let link = &mut self.links[at];
        match input {
            LinkInput::Expired { .. } => link.denied = true,
            LinkInput::Frame(_) => link.denied = false,
            LinkInput::Disconnected { .. } | LinkInput::Refused { .. } => link.over = true,
            _ => {}
        }
        let id = match input {
            LinkInput::Unanswered { id, failure } => {
                link.over |= matches!(failure, outlive_core::link::RequestFailure::Unsent(_));
                Some(id.clone())
            }
            LinkInput::Expired { id, .. } => id.clone(),
            LinkInput::Frame(frame) => {
                let answer = frame.message().filter(|it| it.method().is_empty());
                answer.and_then(|it| it.id().cloned())
            }
            _ => None,
        };
        let Some(sent) = id
            .as_ref()
            .and_then(|id| link.sent.get_mut(&id.to_string()))
        else {
            return Ok(());
        };
        sent.reports += 1;
        // The session may send a request again on the same link: each time has an end of its own.
        match sent.reports > sent.allowed {
            true => broken(
                5,
                format!(
                    "{id:?} ends {} times, and was sent {}",
                    sent.reports, sent.allowed
                ),
            ),
            false => Ok(()),
        }
    }
}
