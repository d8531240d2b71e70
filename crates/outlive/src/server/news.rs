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
pub(crate) enum News {
    List(List),
    /// The resource of this URI.
    Resource(String),
}

impl From<News> for Input {
    fn from(news: News) -> Input {
        match news {
            News::List(list) => Input::Changed(list),
            News::Resource(uri) => Input::Updated { uri },
        }
    }
}

/// What a client has not been told yet.
#[derive(Debug, Default)]
pub(crate) struct Untold {
    lists: Vec<List>,
    resources: BTreeSet<String>,
}

impl Untold {
    /// Keeps this for later; false if there is too much already.
    pub(crate) fn keep(&mut self, news: News) -> bool {
        match news {
            News::List(list) if self.lists.contains(&list) => true,
            News::List(list) => {
                self.lists.push(list);
                true
            }
            News::Resource(uri) if self.resources.len() >= MOST => self.resources.contains(&uri),
            News::Resource(uri) => {
                self.resources.insert(uri);
                true
            }
        }
    }

    /// What is to be told next; it counts as told.
    pub(crate) fn next(&mut self) -> Option<News> {
        let resource = |untold: &mut Untold| untold.resources.pop_first().map(News::Resource);
        self.lists.pop().map(News::List).or_else(|| resource(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_kept_once_and_not_without_bound() {
        let mut untold = Untold::default();
        let uri = |n: usize| News::Resource(format!("r://{n}"));
        for _ in 0..3 {
            assert!(untold.keep(News::List(List::Tools)));
            for n in 0..MOST {
                assert!(untold.keep(uri(n)));
            }
            assert!(!untold.keep(uri(MOST)));
        }
        let told: Vec<News> = std::iter::from_fn(|| untold.next()).collect();
        assert_eq!(told.len(), 1 + MOST);
        assert_eq!(told[0], News::List(List::Tools));
        assert!(untold.keep(uri(MOST)));
        assert_eq!(untold.next(), Some(uri(MOST)));
        assert_eq!(untold.next(), None);
    }
}
