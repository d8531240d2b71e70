//! Whose a request is, and under which name.

use serde_json::Value;

use crate::gateway::TargetId;
use crate::message::{Id, Message, Reference};
use crate::protocol::List;
#[cfg(feature = "search")]
use crate::roster;
use crate::server::Channel;
use crate::server::refusal::ServerRefusal;

use super::table::What;
use super::{Router, Task};

/// Where a request goes.
pub(super) struct Resolved {
    pub(super) target: TargetId,
    change: Change,
    what: What,
}

/// What its server knows it by, as JSON, where that is something else.
enum Change {
    Nothing,
    Name(Vec<u8>),
    Uri(Vec<u8>),
    ReferenceName(Vec<u8>),
    ReferenceUri(Vec<u8>),
    /// The call that a call of one of our tools stands for.
    #[cfg(feature = "search")]
    Call(Box<Message>),
}

impl Change {
    /// Takes the request by value: one that nobody else holds is not copied for a shorter name.
    fn apply(self, request: Message) -> Message {
        match self {
            Change::Nothing => request,
            Change::Name(json) => request.with_name(&json),
            Change::Uri(json) => request.with_uri(&json),
            Change::ReferenceName(json) => request.with_reference_name(&json),
            Change::ReferenceUri(json) => request.with_reference_uri(&json),
            #[cfg(feature = "search")]
            Change::Call(call) => *call,
        }
    }
}

impl Resolved {
    /// The request as its server knows it.
    pub(super) fn message(self, request: Message) -> Message {
        self.change.apply(request)
    }
}

impl Router {
    /// Passes a request to the server it is about. If none is known to have what it names, a server that was never seen
    /// may be waited for.
    pub(super) fn route(&mut self, channel: Channel, message: Message, may_wait: bool) {
        #[cfg(feature = "search")]
        if self.find_tools(channel, &message, may_wait) {
            return;
        }
        match self.resolve(&message) {
            Ok(Resolved {
                target,
                change,
                what,
            }) => {
                if let What::Subscribe(uri, _) = &what
                    && !self.has_room_for(target, uri)
                {
                    let refusal = ServerRefusal::overloaded(message.method());
                    return self.refuse(channel, message.id_json(), &refusal);
                }
                self.call(target, channel, change.apply(message), what);
            }
            Err(refusal) => {
                let may_wait = may_wait && !refusal.is_withheld();
                if may_wait {
                    self.reach_unknown();
                }
                if !may_wait || !self.wait(channel, &message) {
                    self.refuse(channel, message.id_json(), &refusal);
                }
            }
        }
    }

    pub(super) fn resolve(&self, message: &Message) -> Result<Resolved, ServerRefusal> {
        let method = message.method();
        match method {
            "tools/call" => {
                #[cfg(feature = "search")]
                let called = self.called_tool(message);
                #[cfg(feature = "search")]
                let message = called.as_ref().unwrap_or(message);
                let name = message.name().unwrap_or_default();
                #[cfg(feature = "search")]
                if called.is_none() && self.roster.is_searchable() && name == roster::CALL {
                    return Err(ServerRefusal::invalid_params(
                        "Nothing was called: `name` must be the name of a tool, as find_tools returned it, and \
                         `arguments` an object."
                            .into(),
                    ));
                }
                let found = self.roster.tool(&name);
                let found = found.ok_or_else(|| self.nobody_has(List::Tools, &name))?;
                let target = found.target;
                let what = match message.has_task() {
                    true => What::Task,
                    false => What::Plain,
                };
                let name = quoted(found.item.key());
                #[cfg(feature = "search")]
                let change = match called {
                    Some(call) => Change::Call(Box::new(call.with_name(&name))),
                    None => Change::Name(name),
                };
                #[cfg(not(feature = "search"))]
                let change = Change::Name(name);
                Ok(Resolved {
                    target,
                    change,
                    what,
                })
            }
            "prompts/get" => {
                let name = message.name().unwrap_or_default();
                let found = self.roster.prompt(&name);
                let found = found.ok_or_else(|| self.nobody_has(List::Prompts, &name))?;
                Ok(Resolved {
                    target: found.target,
                    change: Change::Name(quoted(found.item.key())),
                    what: What::Plain,
                })
            }
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" => {
                let uri = message.uri().unwrap_or_default();
                let exposed = Box::from(&*uri);
                let (target, uri) = self.resource(&uri)?;
                let what = match method {
                    "resources/subscribe" => What::Subscribe(uri.clone(), exposed),
                    "resources/unsubscribe" => What::Unsubscribe(uri.clone()),
                    _ => What::Plain,
                };
                Ok(Resolved {
                    target,
                    change: Change::Uri(quoted(&uri)),
                    what,
                })
            }
            "completion/complete" => self.completion(message),
            "tasks/list" => Err(ServerRefusal::invalid_params(format!(
                "`tasks/list` was not executed: {}",
                self.which_server()
            )))
            .or_else(|refusal| self.only().ok_or(refusal)),
            _ if method.starts_with("tasks/") => {
                let task = task_id(message.params().unwrap_or_default());
                let known = task.and_then(|task| self.task_owner(&task));
                match known {
                    Some(target) => Ok(plain(target)),
                    None => self.only().ok_or_else(|| {
                        ServerRefusal::invalid_params(
                            "No server is known to have this task.".into(),
                        )
                    }),
                }
            }
            _ => self.only().ok_or_else(|| {
                let mut refusal = ServerRefusal::method_not_found(method);
                let sentence = format!("{}. {}", refusal.error.message, self.which_server());
                refusal.error.message = sentence.into();
                refusal
            }),
        }
    }

    fn completion(&self, message: &Message) -> Result<Resolved, ServerRefusal> {
        match message.reference() {
            Some(Reference::Prompt(name)) => {
                let found = self.roster.prompt(&name);
                let found = found.ok_or_else(|| self.nobody_has(List::Prompts, &name))?;
                Ok(Resolved {
                    target: found.target,
                    change: Change::ReferenceName(quoted(found.item.key())),
                    what: What::Plain,
                })
            }
            Some(Reference::Resource(uri)) => {
                let (target, uri) = match self.roster.template(&uri) {
                    Some(found) => (found.target, Box::from(found.item.key())),
                    None => self.resource(&uri)?,
                };
                Ok(Resolved {
                    target,
                    change: Change::ReferenceUri(quoted(&uri)),
                    what: What::Plain,
                })
            }
            None => Err(ServerRefusal::invalid_params(
                "`params.ref` must name a prompt or a resource.".into(),
            )),
        }
    }

    /// The server that has this resource, and how it calls it.
    fn resource(&self, uri: &str) -> Result<(TargetId, Box<str>), ServerRefusal> {
        match self.roster.resource(uri) {
            Ok((target, original)) => Ok((target, original.into())),
            Err(why) if why.withheld.is_some() => Err(ServerRefusal::unaccepted(why.to_string())),
            Err(why) => Err(ServerRefusal::invalid_params(why.to_string())),
        }
    }

    /// A request that says nothing about whose it is goes to the only server there is. If not all of that server may be
    /// seen, it does not: nobody knows what such a request would reach.
    fn only(&self) -> Option<Resolved> {
        if self.roster.is_partial() {
            return None;
        }
        let mut servers = self.roster.servers();
        let (only, more) = (servers.next()?, servers.next());
        more.is_none().then(|| plain(only.0))
    }

    fn which_server(&self) -> String {
        if self.roster.is_partial() {
            return "Not everything that servers offer may be used at this address, and nothing says whether this may."
                .into();
        }
        "Several servers stand behind this address, and the request does not say which of them it is for. Each of them \
         alone is at its own address."
            .into()
    }

    fn nobody_has(&self, list: List, name: &str) -> ServerRefusal {
        let what = match list {
            List::Prompts => "prompt",
            _ => "tool",
        };
        if let Some(server) = self.roster.withheld(list, name) {
            return ServerRefusal::withheld(what, name, server);
        }
        let shown = &name[..name.floor_char_boundary(200)];
        let mut sentence = format!("Unknown {what}: {shown:?}. It was not executed.");
        let unknown: Vec<&str> = self
            .roster
            .unknown()
            .map(|(_, name)| name)
            .take(5)
            .collect();
        match unknown.is_empty() {
            true => sentence.push_str(" List again to see what there is."),
            false => {
                sentence.push_str(" Nothing is known yet of ");
                sentence.push_str(&unknown.join(", "));
                sentence.push_str(", which could not be reached so far; call again later.");
            }
        }
        ServerRefusal::invalid_params(sentence)
    }

    pub(super) fn task_owner(&self, task: &str) -> Option<TargetId> {
        let mut tasks = self.tasks.iter();
        tasks.find(|it| *it.id == *task).map(|it| it.target)
    }

    /// Remembers whose task this is. If another server has one of that name, the first keeps it.
    pub(super) fn remember_task(&mut self, target: TargetId, token: Option<Id>, result: &[u8]) {
        let result: Value = serde_json::from_slice(result).unwrap_or_default();
        let Some(task) = result["task"]["taskId"].as_str() else {
            return;
        };
        if self.tasks.len() >= self.policy.limits.tasks {
            self.tasks.pop_front();
        }
        self.tasks.push_back(Task {
            id: task.into(),
            target,
            token,
        });
    }

    /// Whether the client may follow this as well.
    fn has_room_for(&self, target: TargetId, uri: &str) -> bool {
        let known = self.follows.contains_key(&(target, uri.into()));
        let most = self.policy.limits.subscriptions;
        known || self.follows.len() + self.table.subscribing() < most
    }
}

fn plain(target: TargetId) -> Resolved {
    Resolved {
        target,
        change: Change::Nothing,
        what: What::Plain,
    }
}

fn quoted(text: &str) -> Vec<u8> {
    serde_json::to_vec(text).unwrap_or_default()
}

pub(super) fn task_id(params: &[u8]) -> Option<String> {
    let params: Value = serde_json::from_slice(params).unwrap_or_default();
    params["taskId"].as_str().map(str::to_owned)
}
