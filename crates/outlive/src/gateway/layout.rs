//! What a gateway serves at the moment, and where.
//!
//! A layout is never changed. When the settings of a gateway are read again another one takes its place, and whoever
//! looks at it sees the one or the other. An endpoint keeps its number for as long as the same thing is there, so that
//! the sessions at it live on; no number is given twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use outlive_core::gateway::TargetId;

use super::target::Target;

/// The number of the endpoint with everything.
pub(super) const EVERYTHING: usize = 0;

/// Who is at an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A target as it is.
    Target(TargetId),
    /// A router, whose view has the number of the endpoint.
    Router,
}

/// An endpoint.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub(super) number: usize,
    /// What stands before the path of a gateway.
    pub(super) before: String,
    pub(super) place: Place,
}

/// What a gateway serves at the moment, and where. See the [module](self).
#[derive(Default)]
pub(super) struct Layout {
    /// How many there were before it.
    pub(super) edition: u64,
    /// The targets in their order.
    pub(super) targets: Vec<(TargetId, Arc<Target>)>,
    /// The endpoints, that of everything first.
    pub(super) endpoints: Vec<Placed>,
}

/// What an endpoint is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Target(TargetId),
    /// A target of which not all tools are shown.
    Filtered(TargetId),
    View(String),
}

/// The numbers of endpoints.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    known: BTreeMap<Key, usize>,
    last: usize,
}

impl Numbers {
    fn of(&mut self, key: Key) -> usize {
        let last = &mut self.last;
        *self.known.entry(key).or_insert_with(|| {
            *last += 1;
            *last
        })
    }

    /// The number of a view.
    pub(super) fn of_view(&mut self, name: &str) -> usize {
        self.of(Key::View(name.into()))
    }

    /// The number of a target where it is alone, and not all of its tools are shown.
    pub(super) fn of_filtered(&mut self, target: TargetId) -> usize {
        self.of(Key::Filtered(target))
    }

    /// Forgets the endpoints that there are no more.
    fn retain(&mut self, endpoints: &[Placed]) {
        let is_there = |number: usize| endpoints.iter().any(|it| it.number == number);
        self.known.retain(|_, number| is_there(*number));
    }
}

impl Layout {
    /// One target at the path itself.
    pub(super) fn of_one(target: Target) -> Layout {
        let id = TargetId(0);
        Layout {
            edition: 0,
            targets: vec![(id, Arc::new(target))],
            endpoints: vec![Placed {
                number: EVERYTHING,
                before: String::new(),
                place: Place::Target(id),
            }],
        }
    }

    /// Several targets: all of them at the path itself, each at a path that begins with its name, and views.
    pub(super) fn of_several(
        edition: u64,
        targets: Vec<(TargetId, Arc<Target>)>,
        is_filtered: impl Fn(TargetId) -> bool,
        views: &[String],
        numbers: &mut Numbers,
    ) -> Layout {
        let mut endpoints = vec![Placed {
            number: EVERYTHING,
            before: String::new(),
            place: Place::Router,
        }];
        for (id, target) in &targets {
            // What is hidden behind the router is hidden here, too.
            let (number, place) = match is_filtered(*id) {
                true => (numbers.of_filtered(*id), Place::Router),
                false => (numbers.of(Key::Target(*id)), Place::Target(*id)),
            };
            let before = format!("/{}", target.name);
            endpoints.push(Placed {
                number,
                before,
                place,
            });
        }
        for name in views {
            endpoints.push(Placed {
                number: numbers.of_view(name),
                before: format!("/view/{name}"),
                place: Place::Router,
            });
        }
        numbers.retain(&endpoints);
        Layout {
            edition,
            targets,
            endpoints,
        }
    }

    /// Who is at an endpoint. Where there is none any more, a router without anything to see is.
    pub(super) fn place(&self, number: usize) -> Place {
        let mut endpoints = self.endpoints.iter();
        let found = endpoints.find(|it| it.number == number);
        found.map_or(Place::Router, |it| it.place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::Gateway;
    use crate::process::command::Command;

    fn targets(those: &[(usize, &str)]) -> Vec<(TargetId, Arc<Target>)> {
        let target = |name: &str| {
            let builder = Gateway::command(Command::new("true", [""; 0]));
            Arc::new(builder.named(name.into()))
        };
        let each = those.iter();
        each.map(|(id, name)| (TargetId(*id), target(name)))
            .collect()
    }

    fn shown(layout: &Layout) -> Vec<(usize, &str)> {
        let each = layout.endpoints.iter();
        each.map(|it| (it.number, it.before.as_str())).collect()
    }

    #[test]
    fn an_endpoint_keeps_its_number_while_the_same_thing_is_there() {
        let mut numbers = Numbers::default();
        let views = ["v".to_owned()];
        let those = targets(&[(0, "a"), (1, "b")]);
        let first = Layout::of_several(0, those, |_| false, &views, &mut numbers);
        assert_eq!(
            shown(&first),
            [(0, ""), (1, "/a"), (2, "/b"), (3, "/view/v")]
        );
        // `a` was changed, and of `b` not everything is shown any more.
        let those = targets(&[(1, "b"), (2, "a")]);
        let next = Layout::of_several(1, those, |it| it.0 == 1, &views, &mut numbers);
        assert_eq!(
            shown(&next),
            [(0, ""), (4, "/b"), (5, "/a"), (3, "/view/v")]
        );
        assert_eq!(next.place(4), Place::Router);
        assert_eq!(next.place(5), Place::Target(TargetId(2)));
        let last = Layout::of_several(2, targets(&[(1, "b")]), |_| false, &views, &mut numbers);
        assert_eq!(
            shown(&last),
            [(0, ""), (6, "/b"), (3, "/view/v")],
            "no number comes back"
        );
    }
}
