//! Changes that a client is to be told of and does not take.
//!
//! That a list or a resource has changed is true however often it is said. So while a client does
//! not read, what it has not been told is kept once, not once for each change, and told when it
//! reads again.

use std::collections::BTreeSet;

use outlive_core::protocol::List;
use outlive_core::server::Input;

/// Resources kept for one client. Which of them it has subscribed to shows only when it is told.
const MOST: usize = 4096;

/// Something has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    List(List),
    /// The resource of this URI.
    Resource(String),
}

impl From<Change> for Input {
    fn from(change: Change) -> Input {
        match change {
            Change::List(list) => Input::Changed(list),
            Change::Resource(uri) => Input::Updated { uri },
        }
    }
}

/// What a client has not been told yet.
#[derive(Debug, Default)]
pub(crate) struct PendingChanges {
    lists: Vec<List>,
    resources: BTreeSet<String>,
}

impl PendingChanges {
    /// Keeps this for later; false if there is too much already.
    pub(crate) fn keep(&mut self, change: Change) -> bool {
        match change {
            Change::List(list) if self.lists.contains(&list) => true,
            Change::List(list) => {
                self.lists.push(list);
                true
            }
            Change::Resource(uri) if self.resources.len() >= MOST => self.resources.contains(&uri),
            Change::Resource(uri) => {
                self.resources.insert(uri);
                true
            }
        }
    }

    /// What is to be told next; it counts as told.
    pub(crate) fn next(&mut self) -> Option<Change> {
        let resource =
            |pending: &mut PendingChanges| pending.resources.pop_first().map(Change::Resource);
        self.lists
            .pop()
            .map(Change::List)
            .or_else(|| resource(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_kept_once_and_not_without_bound() {
        let mut pending = PendingChanges::default();
        let uri = |n: usize| Change::Resource(format!("r://{n}"));
        for _ in 0..3 {
            assert!(pending.keep(Change::List(List::Tools)));
            for n in 0..MOST {
                assert!(pending.keep(uri(n)));
            }
            assert!(!pending.keep(uri(MOST)));
        }
        let told: Vec<Change> = std::iter::from_fn(|| pending.next()).collect();
        assert_eq!(told.len(), 1 + MOST);
        assert_eq!(told[0], Change::List(List::Tools));
        assert!(pending.keep(uri(MOST)));
        assert_eq!(pending.next(), Some(uri(MOST)));
        assert_eq!(pending.next(), None);
    }
}
