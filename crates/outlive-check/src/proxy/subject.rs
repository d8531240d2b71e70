//! A proxy under test: how it is started, and the first look at it.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::Era;
use crate::client::words;
use crate::journal::Journal;
use crate::puppet::Habits;
use crate::scenario::Over;
use crate::verdict::Finding;

use super::stage::{Between, between};

/// How a proxy is tested.
#[derive(Clone, Debug)]
pub struct ProxyOptions {
    /// The proxy and its arguments; `{server}` in them stands for the command of the scripted server, `{port}` for
    /// a port to listen on.
    pub command: Vec<OsString>,
    /// Where it listens, if it does: an address, with `{port}` in it.
    pub url: Option<String>,
    /// What starts a puppet, up to the address: the hidden command of `outlive`.
    pub puppet: Vec<OsString>,
    /// How long anything may take. Only a hang should miss it.
    pub timeout: Duration,
    /// How long the first start may take.
    pub start_patience: Duration,
    /// The only era to play in.
    pub era: Option<Era>,
}

impl ProxyOptions {
    /// The transport on the host's side.
    pub fn over(&self) -> Over {
        match self.url {
            Some(_) => Over::Http,
            None => Over::Stdio,
        }
    }
}

/// What the first look at a proxy found.
#[derive(Clone, Debug, Serialize)]
pub struct ProxySurvey {
    /// The eras that pass through it.
    pub eras: Vec<Era>,
    /// How long it took to be there.
    #[serde(skip)]
    pub started_in: Duration,
}

impl ProxySurvey {
    /// The era scenarios are played in that are about neither.
    pub fn era(&self) -> Era {
        self.eras.first().copied().unwrap_or(Era::Legacy)
    }

    /// In a few words.
    pub fn words(&self) -> String {
        let eras: Vec<&str> = self.eras.iter().map(|era| era.newest()).collect();
        format!("lets {} through", eras.join(" and "))
    }
}

/// A proxy under test, looked at.
#[derive(Clone, Debug)]
pub struct ProxyUnderTest {
    /// How it is tested.
    pub options: ProxyOptions,
    /// What the first look found.
    pub survey: ProxySurvey,
}

impl ProxyUnderTest {
    /// Takes the first look: a good host and a good server have to work. The error says why nothing can be
    /// tested.
    pub async fn look(options: ProxyOptions) -> Result<Arc<ProxyUnderTest>, String> {
        if !options
            .command
            .iter()
            .any(|word| word.to_string_lossy().contains("{server}"))
        {
            return Err(
                "the command does not say where the server goes: {server} is missing".into(),
            );
        }
        let eras = match options.era {
            Some(era) => vec![era],
            None => vec![Era::Legacy, Era::Modern],
        };
        let mut survey = ProxySurvey {
            eras: Vec::new(),
            started_in: Duration::ZERO,
        };
        let mut why = None;
        for era in eras {
            let (begun, journal) = (Instant::now(), Journal::default());
            match first_look(&options, era, &journal).await {
                Ok(()) => {
                    survey.eras.push(era);
                    survey.started_in = survey.started_in.max(begun.elapsed());
                }
                Err(finding) => why = why.or(Some((finding, journal))),
            }
        }
        match (survey.eras.is_empty(), why) {
            (true, Some((why, journal))) => Err(in_words(&options, why, &journal)),
            _ => Ok(Arc::new(ProxyUnderTest { options, survey })),
        }
    }
}

async fn first_look(options: &ProxyOptions, era: Era, journal: &Journal) -> Result<(), Finding> {
    let mut patient = options.clone();
    patient.timeout = options.start_patience;
    let opened = between(&patient, era, journal, |_| Habits::default()).await?;
    let mut all: Between = opened.shake_hands().await?;
    all.host.serves("at first").await
}

fn in_words(options: &ProxyOptions, why: Finding, journal: &Journal) -> String {
    let (Finding::Broken(why) | Finding::NotApplicable(why)) = why;
    let mut text = format!("{} cannot be tested: {why}", words(&options.command));
    for line in journal.evidence().stderr_tail {
        text.push_str("\n  stderr: ");
        text.push_str(&line);
    }
    text
}
