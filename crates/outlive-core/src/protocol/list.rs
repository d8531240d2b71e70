//! The lists a server offers.

/// A list that a server offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum List {
    /// `tools/list`.
    Tools,
    /// `prompts/list`.
    Prompts,
    /// `resources/list`.
    Resources,
    /// `resources/templates/list`.
    Templates,
}

impl List {
    /// All of them.
    pub const ALL: [List; 4] = [List::Tools, List::Prompts, List::Resources, List::Templates];

    /// The word for it in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            List::Tools => "tools",
            List::Prompts => "prompts",
            List::Resources => "resources",
            List::Templates => "templates",
        }
    }

    /// The word for one of its entries.
    pub fn noun(self) -> &'static str {
        match self {
            List::Tools => "tool",
            List::Prompts => "prompt",
            List::Resources => "resource",
            List::Templates => "resource template",
        }
    }

    /// The member of a result that holds it.
    pub fn member(self) -> &'static str {
        match self {
            List::Tools => "tools",
            List::Prompts => "prompts",
            List::Resources => "resources",
            List::Templates => "resourceTemplates",
        }
    }

    /// The member of an entry that tells it from the others.
    pub fn key(self) -> &'static str {
        match self {
            List::Tools | List::Prompts => "name",
            List::Resources => "uri",
            List::Templates => "uriTemplate",
        }
    }

    /// The capability of a server that offers it.
    pub fn capability(self) -> &'static str {
        match self {
            List::Tools => "tools",
            List::Prompts => "prompts",
            List::Resources | List::Templates => "resources",
        }
    }

    /// The method that asks for it.
    pub fn method(self) -> &'static str {
        match self {
            List::Tools => "tools/list",
            List::Prompts => "prompts/list",
            List::Resources => "resources/list",
            List::Templates => "resources/templates/list",
        }
    }

    /// The list that this method asks for.
    pub fn of_method(method: impl AsRef<[u8]>) -> Option<List> {
        let is_it = |list: &List| list.method().as_bytes() == method.as_ref();
        List::ALL.into_iter().find(is_it)
    }

    /// The notification that tells of a change in it.
    pub fn changed_method(self) -> &'static str {
        match self {
            List::Tools => "notifications/tools/list_changed",
            List::Prompts => "notifications/prompts/list_changed",
            List::Resources | List::Templates => "notifications/resources/list_changed",
        }
    }

    /// The field of a `subscriptions/listen` filter that asks for changes in it (2026-07-28).
    pub fn filter_field(self) -> &'static str {
        match self {
            List::Tools => "toolsListChanged",
            List::Prompts => "promptsListChanged",
            List::Resources | List::Templates => "resourcesListChanged",
        }
    }
}
