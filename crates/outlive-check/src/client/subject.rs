//! A client under test: how it is started, and the first look at it.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Value, json};

use crate::Era;
use crate::journal::Journal;
use crate::puppet::{Habits, Puppets};
use crate::scenario::Over;
use crate::site::Site;
use crate::verdict::Finding;

use super::driver::Driver;

/// How a client is tested.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The driver and its arguments; `{command}` in them stands for the scripted server's, `{url}` for its
    /// address.
    pub driver: Vec<OsString>,
    /// How it reaches its servers: over stdio or over HTTP.
    pub over: Over,
    /// What starts a puppet, up to the address: the hidden command of `outlive`.
    pub puppet: Vec<OsString>,
    /// How long anything may take. Only a hang should miss it.
    pub timeout: Duration,
    /// How long the first start may take.
    pub start_patience: Duration,
    /// The only era that scripted servers speak.
    pub era: Option<Era>,
}

/// What the first look at a client found.
#[derive(Clone, Debug, Serialize)]
pub struct ClientSurvey {
    /// What the driver says it drives.
    pub client: String,
    /// The transports it says it can be driven over.
    pub over: Vec<Over>,
    /// The eras it speaks.
    pub eras: Vec<Era>,
    /// How long it took to be there.
    #[serde(skip)]
    pub started_in: Duration,
}

impl ClientSurvey {
    /// The era scenarios are played in that are about neither.
    pub fn era(&self) -> Era {
        self.eras.first().copied().unwrap_or(Era::Legacy)
    }

    /// In a few words.
    pub fn words(&self) -> String {
        let eras: Vec<&str> = self.eras.iter().map(|era| era.newest()).collect();
        let over: Vec<&str> = self.over.iter().map(|over| over.word()).collect();
        format!("speaks {}, over {}", eras.join(" and "), over.join(" and "))
    }
}

/// A client under test, looked at.
#[derive(Clone, Debug)]
pub struct ClientUnderTest {
    /// How it is tested.
    pub options: ClientOptions,
    /// What the first look found.
    pub survey: ClientSurvey,
}

impl ClientUnderTest {
    /// Takes the first look: a good server has to work. The error says why nothing can be tested.
    pub async fn look(options: ClientOptions) -> Result<Arc<ClientUnderTest>, String> {
        let journal = Journal::default();
        let survey = survey(&options, &journal).await.map_err(|why| {
            let (Finding::Broken(why) | Finding::NotApplicable(why)) = why;
            let mut text = format!("{} cannot be tested: {why}", words(&options.driver));
            for line in journal.evidence().stderr_tail {
                text.push_str("\n  stderr: ");
                text.push_str(&line);
            }
            text
        })?;
        Ok(Arc::new(ClientUnderTest { options, survey }))
    }
}

async fn survey(options: &ClientOptions, journal: &Journal) -> Result<ClientSurvey, Finding> {
    let mut survey = ClientSurvey {
        client: String::new(),
        over: Vec::new(),
        eras: Vec::new(),
        started_in: Duration::ZERO,
    };
    let eras = match options.era {
        Some(era) => vec![era],
        None => vec![Era::Legacy, Era::Modern],
    };
    let mut why = None;
    for era in eras {
        let begun = Instant::now();
        match first_look(options, era, journal).await {
            Ok(hello) => {
                survey.eras.push(era);
                survey.client = hello["client"].as_str().unwrap_or_default().to_owned();
                survey.over = over(&hello);
                survey.started_in = survey.started_in.max(begun.elapsed());
            }
            Err(finding) => why = why.or(Some(finding)),
        }
    }
    match (survey.eras.is_empty(), why) {
        (true, Some(why)) => Err(why),
        _ => Ok(survey),
    }
}

/// A good server of one era has to work. The driver may have to be compiled, the client to be downloaded.
async fn first_look(
    options: &ClientOptions,
    era: Era,
    journal: &Journal,
) -> Result<Value, Finding> {
    let timeout = options.start_patience;
    if options.over == Over::Http {
        let site = Site::open(journal, era, timeout).await?;
        return first_call(options, &Place::Url(site.url()), journal).await;
    }
    let habits = move |_| Habits {
        era: Some(era),
        ..Habits::default()
    };
    let puppets = Puppets::open(&options.puppet, journal, timeout, habits).await?;
    first_call(options, &Place::Command(puppets.command()), journal).await
}

async fn first_call(
    options: &ClientOptions,
    place: &Place,
    journal: &Journal,
) -> Result<Value, Finding> {
    let timeout = options.start_patience;
    let mut driver = start(options, place, journal)?;
    let hello = driver.hello(timeout).await?;
    if !over(&hello).contains(&options.over) {
        let over = options.over.word();
        return Finding::broken(format!("its driver does not drive it over {over}"));
    }
    let errand = driver.tell("connect", place.details()).await;
    match driver.outcome_within(errand, "connect", timeout).await {
        Some(super::driver::Outcome::Ok(_)) => {}
        Some(failed) => return Finding::broken(format!("connect {}", failed.words())),
        None => return Finding::broken("connect did not end"),
    }
    driver.works("at first").await?;
    Ok(hello)
}

fn over(hello: &Value) -> Vec<Over> {
    let named = |word| {
        hello["over"]
            .as_array()
            .is_some_and(|list| list.contains(&json!(word)))
    };
    let mut over = Vec::new();
    if named("stdio") {
        over.push(Over::Stdio);
    }
    if named("http") {
        over.push(Over::Http);
    }
    over
}

/// Where a client's server is.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// It is started so.
    Command(Vec<OsString>),
    /// It is there.
    Url(String),
}

impl Place {
    /// What `connect` is told.
    pub(super) fn details(&self) -> Value {
        match self {
            Place::Command(command) => to_command(command),
            Place::Url(url) => json!({ "url": url }),
        }
    }

    fn variable(&self) -> (OsString, OsString) {
        match self {
            Place::Command(command) => {
                let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
                let words = json!(words).to_string();
                ("OUTLIVE_CHECK_COMMAND".into(), words.into())
            }
            Place::Url(url) => ("OUTLIVE_CHECK_URL".into(), url.into()),
        }
    }

    fn fill(&self, driver: &[OsString]) -> Vec<OsString> {
        match self {
            Place::Command(command) => filled(driver, "{command}", command),
            Place::Url(url) => filled(driver, "{url}", &[url.into()]),
        }
    }
}

/// Starts the driver of a client whose server is there.
pub(super) fn start(
    options: &ClientOptions,
    place: &Place,
    journal: &Journal,
) -> Result<Driver, Finding> {
    Driver::start(
        &place.fill(&options.driver),
        &[place.variable()],
        options.timeout,
        journal.leg("driver"),
    )
}

/// The words of `connect` for a server that is started.
pub(super) fn to_command(server: &[OsString]) -> Value {
    let words: Vec<_> = server.iter().map(|word| word.to_string_lossy()).collect();
    json!({ "command": words })
}

/// A command with a template filled in: by several words where it stands alone, else by one text.
pub(crate) fn filled(command: &[OsString], template: &str, by: &[OsString]) -> Vec<OsString> {
    let text = by
        .iter()
        .map(|word| quoted(word))
        .collect::<Vec<_>>()
        .join(" ");
    let mut filled = Vec::new();
    for word in command {
        match word.to_str() {
            Some(word) if word == template => filled.extend(by.iter().cloned()),
            Some(word) => filled.push(word.replace(template, &text).into()),
            None => filled.push(word.clone()),
        }
    }
    filled
}

/// As a shell would have it.
fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-:=+@%,".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.into_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// A command as it was given.
pub(crate) fn words(command: &[OsString]) -> String {
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_filled() {
        let os = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let server = os(&["/bin/out live", "check-puppet"]);
        let alone = filled(&os(&["drive", "--", "{command}"]), "{command}", &server);
        assert_eq!(alone, os(&["drive", "--", "/bin/out live", "check-puppet"]));
        let inside = filled(&os(&["drive", "--server={command}"]), "{command}", &server);
        assert_eq!(
            inside,
            os(&["drive", "--server='/bin/out live' check-puppet"])
        );
    }
}
