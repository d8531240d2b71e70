//! Calls of the two tools that stand for all, where tools are searched and not listed.

use crate::message::Message;
use crate::roster::{CALL, FIND};
use crate::server::Channel;

use super::Router;

impl Router {
    /// Answers a call of the tool that finds tools; if need be, waits for servers as a list does. False if this is none.
    pub(super) fn find_tools(
        &mut self,
        channel: Channel,
        message: &Message,
        may_wait: bool,
    ) -> bool {
        let is_it = self.roster.is_searchable()
            && message.is("tools/call")
            && message.name().is_some_and(|name| name == FIND);
        if !is_it {
            return false;
        }
        if may_wait {
            self.reach_unknown();
        }
        if !may_wait || !self.wait(channel, message) {
            let result = self.roster.find_tools(message.arguments().unwrap_or(b"{}"));
            self.send(channel, Message::response(message.id_json(), &result));
        }
        true
    }

    /// The call that a call of the tool that calls tools stands for; `None` if it does not say which tool, or if its
    /// arguments are no object.
    pub(super) fn called_tool(&self, message: &Message) -> Option<Message> {
        let is_it = self.roster.is_searchable() && message.name().is_some_and(|it| it == CALL);
        // Arguments may be long: they are looked into only if they say what is called.
        let name = is_it.then(|| message.argument("name"))??;
        let arguments: &[u8] = match message.argument("arguments") {
            None | Some(b"null") => b"{}",
            Some(given) => given,
        };
        let is_call = name.first() == Some(&b'"') && arguments.first() == Some(&b'{');
        if !is_call {
            return None;
        }
        Some(message.clone().with_arguments(arguments).with_name(name))
    }
}
