//! The files in front of a server: tokens and certificates, which change while it runs.

use std::path::Path;
use std::time::Duration;

use tokio::time::sleep;

use super::AccessRules;
use super::secret::ReplicaSecret;
use super::token::Tokens;
use crate::io::files::{self, Stamp};

/// How often it is looked whether a file has changed.
const FILE_POLL: Duration = Duration::from_secs(1);

/// The files of a listener. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Files {
    pub(crate) tokens: Option<Tokens>,
    pub(crate) secret: Option<ReplicaSecret>,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<super::tls::Tls>,
}

impl Files {
    /// Those of these rules.
    pub(crate) fn of(access: &AccessRules) -> Files {
        Files {
            tokens: access.tokens.clone(),
            secret: access.secret.clone(),
            #[cfg(feature = "tls")]
            tls: access.tls.clone(),
        }
    }

    /// Reads all of them; what is wrong with those that cannot be used, in sentences. These stay as
    /// they were.
    pub(crate) fn read(&self) -> Result<(), Vec<String>> {
        let tokens = self.tokens.iter().map(Tokens::read);
        let tokens = tokens.chain(self.secret.iter().map(ReplicaSecret::read));
        #[cfg(feature = "tls")]
        let tokens = tokens.chain(self.tls.iter().map(super::tls::Tls::read));
        let wrong: Vec<String> = tokens.filter_map(Result::err).collect();
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(wrong),
        }
    }

    fn paths(&self) -> Vec<&Path> {
        let paths = self.tokens.iter().filter_map(Tokens::path);
        let paths = paths.chain(self.secret.iter().filter_map(ReplicaSecret::path));
        #[cfg(feature = "tls")]
        let paths = paths.chain(self.tls.iter().flat_map(super::tls::Tls::paths));
        paths.collect()
    }

    fn stamps(&self) -> Vec<Option<Stamp>> {
        self.paths().into_iter().map(files::stamp).collect()
    }

    /// Reads them again when they have changed; `tell` hears in a sentence what came of it.
    pub(super) async fn watch(self, tell: impl Fn(&str)) {
        if self.paths().is_empty() {
            return;
        }
        let mut known = self.stamps();
        // Whoever changed one since it was read for the first time would wait for ever.
        let mut wrong = self.read().err().unwrap_or_default();
        wrong.iter().for_each(|why| tell(&stays(why)));
        loop {
            sleep(FILE_POLL).await;
            let stamps = self.stamps();
            // What was wrong may be right by now: a view may have come, or permissions.
            if stamps == known && wrong.is_empty() {
                continue;
            }
            let has_changed = stamps != known;
            known = stamps;
            match self.read() {
                Ok(()) => {
                    wrong.clear();
                    tell("tokens, certificates or secrets have changed and were read again");
                }
                Err(now) => {
                    let is_news = |why: &&String| has_changed || !wrong.contains(why);
                    now.iter().filter(is_news).for_each(|why| tell(&stays(why)));
                    wrong = now;
                }
            }
        }
    }
}

/// What is said when a file cannot be used any more.
pub(crate) fn stays(why: &str) -> String {
    format!("{why}; what was read before stays good")
}
