//! The gateway that several servers become.

use std::path::PathBuf;
use std::time::Duration;

use outlive::gateway::{self, Pins, RouterPolicy, Several, View};
use outlive::{Gateway, OrphanReaper};

use super::filter::matches;
use super::{Catalogue, Expose, Filter, Prefix, ServerSpec, Servers};
use crate::places;

impl Servers {
    /// All of them behind one router, with what concerns all of them but the observer.
    pub fn gateway(&self, idle_stop: Option<Duration>) -> Result<Several, String> {
        self.check_within()?;
        let several = self.several(idle_stop)?;
        // Without an orphan reaper we go on as well as we can: it is only needed if we are killed.
        Ok(match OrphanReaper::start() {
            Ok(orphan_reaper) => several.orphan_reaper(orphan_reaper),
            Err(_) => several,
        })
    }

    /// All of them behind one router, and how they are shown.
    pub fn several(&self, idle_stop: Option<Duration>) -> Result<Several, String> {
        let policy = RouterPolicy {
            list_wait: self.list_wait,
            idle_stop,
            ..RouterPolicy::default()
        };
        let naming = gateway::Naming {
            prefix: match self.naming.prefix {
                Prefix::Always => gateway::Prefix::Always,
                Prefix::Conflict => gateway::Prefix::Conflict,
                Prefix::Never => gateway::Prefix::Never,
            },
            separator: self.naming.separator.as_str().into(),
            ..gateway::Naming::default()
        };
        let expose = match self.expose {
            Expose::List => gateway::Expose::List,
            Expose::Search => gateway::Expose::Search,
            Expose::Auto => gateway::Expose::Auto,
        };
        let mut several = Gateway::of(self.targets()?)
            .naming(naming)
            .expose(expose)
            .router(policy);
        if let Some(directory) = self.catalogue_directory() {
            several = several.catalogue(directory);
        }
        if self.servers.iter().any(|it| it.settings.run.several.pin) {
            several = several.pins(Pins::new(pin_directory()?));
        }
        for view in &self.views {
            several = several.view(&view.name, self.shown(view));
        }
        Ok(several)
    }

    /// Where is kept what they offer, if anywhere.
    fn catalogue_directory(&self) -> Option<PathBuf> {
        match &self.catalogue {
            Catalogue::Cache => places::catalogue_folder(),
            Catalogue::Directory(directory) => Some(directory.clone()),
            Catalogue::Nowhere => None,
        }
    }

    /// What a view contains. Its servers are named as in the file; a gateway knows them as in addresses.
    fn shown(&self, view: &super::View) -> View {
        let is_in = |server: &&ServerSpec| match &view.servers {
            Some(patterns) => patterns.iter().any(|it| matches(it, &server.name)),
            None => true,
        };
        let segments = self.servers.iter().filter(is_in).map(|it| &*it.segment);
        let mut servers = gateway::Filter::new(segments, []);
        if servers.allow.is_empty() {
            // Those that it names are switched off.
            servers.deny.push("*".into());
        }
        View {
            servers,
            tools: view.tools.rule(),
            prompts: view.prompts.rule(),
            resources: view.resources.rule(),
        }
    }
}

/// Where it is kept what was accepted. Without a place for that nothing is served: nobody would be protected.
fn pin_directory() -> Result<PathBuf, String> {
    let folders = places::pin_folders().into_iter();
    let folder = folders.into_iter().next().ok_or_else(|| {
        format!(
            "there is no place to keep what was accepted (--pin): set HOME, XDG_STATE_HOME or {}",
            places::STATE_DIR
        )
    })?;
    places::make_private(&folder)
        .map_err(|why| format!("what was accepted (--pin) cannot be kept: {why}"))?;
    Ok(folder)
}

impl Filter {
    /// The same as a gateway has it, where an empty list allows everything.
    pub fn rule(&self) -> gateway::Filter {
        let allow = self.allow.iter().flatten().map(String::as_str);
        let deny = self.deny.iter().map(String::as_str);
        let nothing = self.allow.as_ref().is_some_and(Vec::is_empty);
        gateway::Filter::new(allow, deny.chain(nothing.then_some("*")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_allows_nothing_shows_nothing() {
        let filter = |allow: Option<&[&str]>| Filter {
            allow: allow.map(|names| names.iter().map(|it| (*it).to_owned()).collect()),
            deny: vec!["secret".into()],
        };
        for (allow, name, shown) in [
            (None, "a", true),
            (None, "secret", false),
            (Some(&[][..]), "a", false),
            (Some(&["a*"]), "ab", true),
            (Some(&["a*"]), "b", false),
        ] {
            let rule = filter(allow).rule();
            assert_eq!(rule.admits(name), shown, "{allow:?} {name}");
        }
    }
}
