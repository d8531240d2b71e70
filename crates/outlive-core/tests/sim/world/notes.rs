//! Notifications of the host. Over HTTP each is acknowledged as soon as the session has it, so nothing the host says
//! afterwards may reach the server before it.

use outlive_core::{Message, State};

use super::{Broken, World};

impl World {
    pub(super) fn host_notifies(&mut self) -> Result<(), Broken> {
        let seq = self.seq();
        if let State::Ready { generation } = &self.state
            && !self.host_closed
            && !self.stopping
        {
            self.notes.push((seq, *generation));
        }
        self.host_line(format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/custom","params":{{"seq":{seq}}}}}"#
        ))
    }

    /// A notification of the host reaches a server.
    pub(super) fn note_passed(&mut self, message: &Message) {
        let params = String::from_utf8_lossy(message.params().unwrap_or_default()).into_owned();
        let digits: String = params.chars().filter(char::is_ascii_digit).collect();
        self.notes.retain(|(seq, _)| digits != seq.to_string());
    }
}
