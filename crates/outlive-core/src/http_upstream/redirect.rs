//! Where an HTTP request is led: to another address, or to a login.
//!
//! - 307 and 308 mean that nothing was done here. 301 and 302 are also said of what was done (as 303 is, always), so
//!   they are followed only by what does no harm twice. Another origin is not followed: nobody else gets our
//!   credentials.
//! - 401, and 403 with a challenge, ask for other credentials, where there is somebody to ask for them.
//!
//! Both are bounded, for each message: [`MOST_REDIRECTS`], [`MOST_CHALLENGES`].

use super::Head;

/// How many times a server may say that its endpoint is elsewhere.
pub const MOST_REDIRECTS: u32 = 5;
/// How many times a server may want other credentials.
pub const MOST_CHALLENGES: u32 = 3;

/// How far a message, or the GET for a stream, was led.
#[derive(Clone, Debug, Default)]
pub(super) struct Redirects {
    redirects: u32,
    challenges: u32,
    /// Where it goes, if not to the address of the session.
    pub(super) to: Option<String>,
    /// It stays there, if a session begins with it: the last redirect was none for this once (307).
    pub(super) stays: bool,
}

/// What a response means for where it goes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NextStep {
    /// Nowhere: the response is the server's.
    Here,
    /// To [`Redirects::to`].
    Moved,
    /// To an address we do not go to, for this reason.
    Elsewhere(String),
    /// To whoever has other credentials.
    Challenged,
}

impl Redirects {
    /// Where this response leads. `harmless`: it may reach a server twice. `login`: somebody has other credentials.
    pub(super) fn follow(&mut self, head: &Head, harmless: bool, login: bool) -> NextStep {
        let moved =
            matches!(head.status, 307 | 308) || matches!(head.status, 301 | 302) && harmless;
        if let Some(location) = head.location.as_ref().filter(|_| moved) {
            if let Some(origin) = &location.other_origin {
                return NextStep::Elsewhere(format!(
                    "it redirects to {origin}, which is another origin and is not given our credentials; \
                     if that is right, use that address"
                ));
            }
            self.redirects += 1;
            if self.redirects > MOST_REDIRECTS {
                return NextStep::Elsewhere(format!(
                    "it redirects from one of its addresses to the next, more than {MOST_REDIRECTS} times in a row"
                ));
            }
            self.to = Some(location.to.clone());
            self.stays = head.status != 307;
            return NextStep::Moved;
        }
        let asks = head.status == 401 || head.status == 403 && head.authenticate.is_some();
        if asks && login && self.challenges < MOST_CHALLENGES {
            self.challenges += 1;
            return NextStep::Challenged;
        }
        NextStep::Here
    }
}

#[cfg(test)]
mod tests {
    use super::super::Location;
    use super::*;

    fn head(status: u16, other_origin: Option<&str>) -> Head {
        Head {
            status,
            location: Some(Location {
                to: "http://a/b".into(),
                other_origin: other_origin.map(str::to_string),
            }),
            ..Head::default()
        }
    }

    #[test]
    fn only_what_was_certainly_not_executed_is_sent_elsewhere() {
        for (status, harmless, moved) in [
            (307, false, true),
            (308, false, true),
            (301, false, false),
            (302, false, false),
            (301, true, true),
            (302, true, true),
            (303, true, false),
            (300, true, false),
        ] {
            let next = Redirects::default().follow(&head(status, None), harmless, true);
            assert_eq!(next == NextStep::Moved, moved, "{status} {harmless}");
        }
        let next = Redirects::default().follow(&head(307, Some("http://b")), true, true);
        assert!(matches!(next, NextStep::Elsewhere(why) if why.contains("http://b")));
        let mut redirects = Redirects::default();
        let nowhere = Head {
            location: None,
            ..head(307, None)
        };
        assert_eq!(redirects.follow(&nowhere, true, true), NextStep::Here);
    }

    #[test]
    fn an_address_is_kept_unless_it_is_for_this_once() {
        let mut redirects = Redirects::default();
        redirects.follow(&head(307, None), false, false);
        assert!(!redirects.stays);
        redirects.follow(&head(308, None), false, false);
        assert!(redirects.stays);
    }

    #[test]
    fn redirects_and_challenges_are_bounded() {
        let mut redirects = Redirects::default();
        for _ in 0..MOST_REDIRECTS {
            assert_eq!(
                redirects.follow(&head(307, None), false, false),
                NextStep::Moved
            );
        }
        let next = redirects.follow(&head(307, None), false, false);
        assert!(matches!(next, NextStep::Elsewhere(why) if why.contains("more than 5 times")));
        let asks = Head {
            status: 401,
            ..Head::default()
        };
        assert_eq!(
            Redirects::default().follow(&asks, true, false),
            NextStep::Here
        );
        for _ in 0..MOST_CHALLENGES {
            assert_eq!(redirects.follow(&asks, false, true), NextStep::Challenged);
        }
        assert_eq!(redirects.follow(&asks, false, true), NextStep::Here);
        // One that merely forbids asks for nothing.
        let forbids = Head {
            status: 403,
            ..Head::default()
        };
        assert_eq!(
            Redirects::default().follow(&forbids, true, true),
            NextStep::Here
        );
        let wants = Head {
            authenticate: Some("Bearer".into()),
            ..forbids
        };
        assert_eq!(
            Redirects::default().follow(&wants, true, true),
            NextStep::Challenged
        );
    }
}
