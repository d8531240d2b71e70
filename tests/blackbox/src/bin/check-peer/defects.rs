//! The ways to fail.

/// The defects a role can have.
pub fn of(role: &str) -> Option<&'static [&'static str]> {
    match role {
        "server" => Some(SERVER),
        "client" => Some(CLIENT),
        "web" => Some(WEB),
        "web-client" => Some(WEB_CLIENT),
        "proxy" => Some(PROXY),
        _ => None,
    }
}

const SERVER: &[&str] = &[
    "accepts-any-version",
    "answers-cancelled",
    "answers-cancelled-twice",
    "answers-everything",
    "chokes-on-byte-order-mark",
    "chokes-on-cr",
    "crashes-on-eof-mid-call",
    "dies-of-long-lines",
    "dies-on-bad-initialize",
    "dies-on-blank-line",
    "dies-on-cancel",
    "dies-on-cancelled-initialize",
    "dies-on-discover",
    "dies-on-garbage",
    "dies-on-id-in-use",
    "dies-on-invalid-utf8",
    "dies-on-malformed-cancel",
    "dies-on-nesting",
    "dies-on-second-answer",
    "dies-on-second-cancel",
    "dies-on-second-initialize",
    "dies-on-stray",
    "dies-on-unknown-cancel",
    "dies-on-wrong-arguments",
    "dies-on-wrong-shape",
    "dies-when-cancelled-work-ends",
    "dies-when-unread",
    "drops-last-line",
    "echoes-version",
    "forgets-at-eof",
    "hangs-on-refusal",
    "ignores-broken-pipe",
    "ignores-eof",
    "ignores-sigterm",
    "ignores-unknown-methods",
    "ignores-unknown-tools",
    "keeps-endless-lines",
    "leaks-descriptors",
    "leaves-a-child",
    "logs-a-lot",
    "loses-requests",
    "never-uses-an-id-again",
    "one-message-per-read",
    "prints-a-banner",
    "progress-after-answer",
    "remembers-early-cancels",
    "serves-one-at-a-time",
    "silent-before-handshake",
    "silent-before-initialized",
    "spins",
    "survives-its-host",
    "turns-ids-into-numbers",
    "waits-for-answers-alone",
];

const CLIENT: &[&str] = &[
    "caches-list",
    "cancels-silently",
    "cuts-messages",
    "dies-on-bad-utf8",
    "dies-on-blank-lines",
    "dies-on-junk",
    "dies-on-progress",
    "dies-on-unknown-id",
    "dies-on-unknown-notification",
    "forgets-calls-at-close",
    "forgets-calls-at-death",
    "hangs-after-death",
    "hangs-on-failed-start",
    "hides-failures",
    "ignores-questions",
    "impatient",
    "kills-at-once",
    "leaves-server",
    "leaves-stderr",
    "needs-whole-writes",
    "no-restart",
    "restarts-at-once",
    "says-cancelled-at-death",
    "small-buffer",
    "stays-connected",
    "waits-for-cancelled",
    "waits-for-ever",
];

const WEB: &[&str] = &[
    "accepts-anything",
    "answers-notifications",
    "buffers-streams",
    "crosses-answers",
    "dies-on-cut-off-body",
    "dies-when-a-client-vanishes",
    "fails-on-odd-methods",
    "forgets-cut-streams",
    "get-is-404",
    "ignores-contradictions",
    "ignores-version-header",
    "impatient-reader",
    "keeps-deleted-sessions",
    "missing-session-is-404",
    "one-connection-at-a-time",
    "refuses-stale-initialize",
    "trusts-every-origin",
    "unknown-method-is-200",
    "unknown-session-is-400",
];

const WEB_CLIENT: &[&str] = &[
    "cancels-silently",
    "dies-on-status",
    "dies-on-unknown-id",
    "fails-expired-call",
    "forgets-calls-at-close",
    "forgets-cursor",
    "forgets-old-streams",
    "gives-up",
    "hammers",
    "hangs-on-cut",
    "hangs-on-junk",
    "hangs-on-reset",
    "hides-failures",
    "ignores-questions",
    "ignores-retry",
    "ignores-retry-after",
    "impatient",
    "initializes-for-each",
    "keeps-stale-session",
    "leaves-session",
    "names-stale-session",
    "needs-get",
    "never-resumes",
    "omits-name-header",
    "omits-session-header",
    "omits-version-header",
    "one-at-a-time",
    "one-line-events",
    "reads-no-streams",
    "replays-calls",
    "says-cancelled-at-death",
    "takes-any-answer",
    "waits-for-farewell",
];

const PROXY: &[&str] = &[
    "answers-cancellations",
    "answers-in-order",
    "drops-cancellations",
    "drops-progress",
    "drops-questions",
    "drops-unknown-members",
    "drops-unknown-methods",
    "drops-when-busy",
    "flattens-errors",
    "goes-silent-at-death",
    "knows-results",
    "leaves-server",
    "leaves-stderr",
    "no-restart",
    "passes-junk",
    "reorders",
    "replays-blindly",
    "restarts-at-once",
    "rewrites-json",
    "silent-after-junk",
    "small-buffer",
    "turns-texts-into-numbers",
];

/// The defects of this program.
#[derive(Clone, Debug)]
pub struct Defects {
    chosen: Vec<String>,
}

impl Defects {
    /// From the command line, for a role.
    pub fn parse(role: &str, mut args: impl Iterator<Item = String>) -> Result<Defects, String> {
        let known = of(role).ok_or(
            "usage: check-peer server|client|proxy|web|web-client [--defect NAME] [-- SERVER]",
        )?;
        let mut chosen = Vec::new();
        while let Some(arg) = args.next() {
            if arg != "--defect" {
                return Err(format!("there is no option {arg}"));
            }
            let wanted = args.next().unwrap_or_default();
            if !known.contains(&wanted.as_str()) {
                return Err(format!("there is no defect {wanted:?}"));
            }
            chosen.push(wanted);
        }
        Ok(Defects { chosen })
    }

    /// Whether this program has none.
    pub fn is_empty(&self) -> bool {
        self.chosen.is_empty()
    }

    /// Whether this program has a defect. One that is not in the list is a mistake of ours.
    pub fn has(&self, name: &str) -> bool {
        debug_assert!(
            [SERVER, CLIENT, PROXY, WEB, WEB_CLIENT]
                .concat()
                .contains(&name),
            "{name}"
        );
        self.chosen.iter().any(|chosen| chosen == name)
    }

    /// Ends the program, as a crash would, if it has the defect.
    pub fn dies(&self, name: &str, now: bool) {
        if self.has(name) && now {
            eprintln!("check-peer: {name}");
            std::process::exit(1);
        }
    }
}
